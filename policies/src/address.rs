//! Where an address leads, whatever its spelling: decimal, octal, hexadecimal and short forms of IPv4,
//! IPv4 inside IPv6, full-width digits and dots, names that spell an address, user names and
//! back-slashes in a URL.
//!
//! Only the text is judged. Who dials judges the address that a name resolved to by [`of_ip`] too.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};

/// Where an address leads, from the least to the gravest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reach {
    /// Anywhere in the world.
    Public,
    /// This machine, or the jail's own loopback.
    Loopback,
    /// A network of the organisation: private, shared, unique-local, link-local.
    Private,
    /// No address of one host: multicast, broadcast, reserved, documentation.
    Reserved,
    /// Where a cloud machine asks for its own credentials.
    Metadata,
}

/// A host as it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spelling {
    /// Where it leads.
    pub reach: Reach,
    /// Whether it is written the way people write it; `127.1` and `0x7f000001` are not.
    pub plain: bool,
}

/// Addresses of metadata services, in their plain spelling.
const METADATA_V4: &[Ipv4Addr] = &[
    Ipv4Addr::new(169, 254, 169, 254),
    Ipv4Addr::new(169, 254, 170, 2),
    Ipv4Addr::new(169, 254, 170, 23),
    Ipv4Addr::new(169, 254, 169, 253),
    Ipv4Addr::new(169, 254, 169, 123),
    Ipv4Addr::new(169, 254, 0, 23),
    Ipv4Addr::new(100, 100, 100, 200),
    Ipv4Addr::new(168, 63, 129, 16),
    Ipv4Addr::new(192, 0, 0, 192),
];
const METADATA_V6: &[Ipv6Addr] = &[
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254),
    Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254),
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23),
];
const METADATA_NAMES: &[&str] = &[
    "metadata",
    "metadata.google.internal",
    "metadata.goog",
    "metadata.azure.com",
    "metadata.azure.internal",
    "metadata.tencentyun.com",
    "metadata.platformequinix.com",
    "metadata.packet.net",
    "instance-data",
    "instance-data.ec2.internal",
    "metadata.oraclecloud.com",
];
/// Names of zones that answer with the address that the name spells.
const SPELLED_ZONES: &[&str] = &[
    "nip.io",
    "sslip.io",
    "xip.io",
    "localtest.me",
    "lvh.me",
    "vcap.me",
    "traefik.me",
];

/// Where an address leads.
#[must_use]
pub fn of_ip(address: IpAddr) -> Reach {
    match address {
        IpAddr::V4(address) => of_v4(address),
        IpAddr::V6(address) => match inner_v4(address) {
            Some(inner) => of_v4(inner),
            None => of_v6(address),
        },
    }
}

fn of_v4(address: Ipv4Addr) -> Reach {
    let [a, b, c, _] = address.octets();
    if METADATA_V4.contains(&address) {
        return Reach::Metadata;
    }
    match (a, b, c) {
        // `0.0.0.0` and its network are this host.
        (127 | 0, ..) => Reach::Loopback,
        (10, ..) | (192, 168, _) | (169, 254, _) => Reach::Private,
        (172, 16..=31, _) | (100, 64..=127, _) => Reach::Private,
        (192, 0, 0 | 2) | (198, 18 | 19, _) | (198, 51, 100) | (203, 0, 113) | (192, 88, 99) => {
            Reach::Reserved
        }
        (224..=255, ..) => Reach::Reserved,
        _ => Reach::Public,
    }
}

fn of_v6(address: Ipv6Addr) -> Reach {
    if METADATA_V6.contains(&address) {
        return Reach::Metadata;
    }
    let [first, second, ..] = address.segments();
    match first {
        _ if address.is_loopback() || address.is_unspecified() => Reach::Loopback,
        // Unique-local, link-local, and the site-local of old.
        0xfc00..=0xfdff | 0xfe80..=0xfeff => Reach::Private,
        0xff00..=0xffff => Reach::Reserved,
        0x2001 if second == 0xdb8 => Reach::Reserved,
        _ => Reach::Public,
    }
}

/// The IPv4 address inside mapped, compatible, translated (NAT64), 6to4 and ISATAP forms.
fn inner_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let last = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        Ipv4Addr::new(a, b, c, d)
    };
    match address.segments() {
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0, 0, 0, 0, 0xffff, 0, high, low] => {
            Some(last(high, low))
        }
        // `::1` and `::` are their own.
        [0, 0, 0, 0, 0, 0, high, low] if high != 0 => Some(last(high, low)),
        [0x64, 0xff9b, _, _, _, _, high, low] => Some(last(high, low)),
        [0x2002, high, low, ..] => Some(last(high, low)),
        [.., 0 | 0x200, 0x5efe, high, low] => Some(last(high, low)),
        _ => None,
    }
}

/// Full-width letters, digits and dots as the plain ones that a resolver makes of them; what hides
/// inside is dropped.
fn folded(text: &str) -> String {
    text.chars()
        .filter(|c| !crate::safety::is_hidden(*c))
        .map(|c| match c {
            '\u{3002}' | '\u{ff0e}' | '\u{ff61}' => '.',
            '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(c) - 0xfee0)
                .unwrap_or(c)
                .to_ascii_lowercase(),
            '\u{2460}'..='\u{2468}' => char::from_digit(u32::from(c) - 0x245f, 10).unwrap_or(c),
            '\u{24ea}' => '0',
            '\u{2070}' | '\u{2080}' => '0',
            '\u{b9}' | '\u{2081}' => '1',
            '\u{b2}' | '\u{2082}' => '2',
            '\u{b3}' | '\u{2083}' => '3',
            '\u{2074}'..='\u{2079}' => char::from_digit(u32::from(c) - 0x2070, 10).unwrap_or(c),
            '\u{2084}'..='\u{2089}' => char::from_digit(u32::from(c) - 0x2080, 10).unwrap_or(c),
            _ => c.to_lowercase().next().unwrap_or(c),
        })
        .collect()
}

/// A host with its percent-escapes taken out, as clients do before they resolve it.
fn unescaped(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, behind)) = rest.split_first() {
        let hex = |at: usize| behind.get(at).and_then(|b| char::from(*b).to_digit(16));
        match (first, hex(0), hex(1)) {
            (b'%', Some(high), Some(low)) => {
                bytes.push(u8::try_from(high * 16 + low).unwrap_or(b'%'));
                rest = behind.get(2..).unwrap_or_default();
            }
            _ => {
                bytes.push(first);
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Where a host leads, by its spelling; a name that spells no address is public.
#[must_use]
pub fn of_host(host: &str) -> Spelling {
    let host = host.trim();
    // A zone (`fe80::1%eth0`) is not part of the address.
    let host = match host.find(':') {
        Some(_) => host.split('%').next().unwrap_or(host),
        None => host,
    };
    let name = folded(&unescaped(host));
    let plain = name == host.to_ascii_lowercase();
    let name = name.trim_end_matches('.');
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    if bare.contains(':')
        && let Ok(address) = bare.parse::<Ipv6Addr>()
    {
        let hides = inner_v4(address).is_some();
        return Spelling {
            reach: of_ip(IpAddr::V6(address)),
            plain: plain && !hides,
        };
    }
    if let Some((address, usual)) = v4(bare) {
        return Spelling {
            reach: of_v4(address),
            plain: plain && usual,
        };
    }
    if METADATA_NAMES.contains(&bare) {
        return Spelling {
            reach: Reach::Metadata,
            plain,
        };
    }
    let local = [
        "localhost",
        "localhost.localdomain",
        "ip6-localhost",
        "ip6-loopback",
    ];
    if local.contains(&bare) || bare.ends_with(".localhost") {
        return Spelling {
            reach: Reach::Loopback,
            plain,
        };
    }
    if let Some(zone) = SPELLED_ZONES.iter().find(|zone| {
        bare.strip_suffix(**zone)
            .is_some_and(|head| head.is_empty() || head.ends_with('.'))
    }) {
        let head = bare.strip_suffix(zone).unwrap_or("").trim_end_matches('.');
        return Spelling {
            reach: spelled_in(head).map_or(Reach::Loopback, of_v4),
            plain: false,
        };
    }
    let inside = [
        ".internal",
        ".intranet",
        ".corp",
        ".lan",
        ".home.arpa",
        ".svc.cluster.local",
    ];
    Spelling {
        reach: if inside.iter().any(|end| bare.ends_with(end)) {
            Reach::Private
        } else {
            Reach::Public
        },
        plain,
    }
}

/// The address that the labels before `nip.io` spell: `10.0.0.1`, `app-10-0-0-1`, `0a000001`.
fn spelled_in(head: &str) -> Option<Ipv4Addr> {
    let numbers = |separator: char| -> Option<Ipv4Addr> {
        let parts: Vec<&str> = head.split(separator).collect();
        let last: Vec<u8> = parts
            .iter()
            .rev()
            .take(4)
            .map(|part| part.parse().ok())
            .collect::<Option<_>>()?;
        match last.as_slice() {
            [d, c, b, a] => Some(Ipv4Addr::new(*a, *b, *c, *d)),
            _ => None,
        }
    };
    let hex = head.rsplit(['.', '-']).next().unwrap_or(head);
    let by_hex = (hex.len() == 8)
        .then(|| u32::from_str_radix(hex, 16).ok().map(Ipv4Addr::from))
        .flatten();
    numbers('.').or_else(|| numbers('-')).or(by_hex)
}

/// An IPv4 address as the C library reads it: one to four parts, each decimal, octal or hexadecimal,
/// the last one filling what is left. The second word says whether it is the usual spelling.
fn v4(text: &str) -> Option<(Ipv4Addr, bool)> {
    if text.is_empty() || text.len() > 64 {
        return None;
    }
    let parts: Vec<&str> = text.split('.').collect();
    if parts.len() > 4 {
        return None;
    }
    let mut value: u64 = 0;
    let mut usual = parts.len() == 4;
    for (at, part) in parts.iter().enumerate() {
        let (digits, base) = match part.strip_prefix("0x") {
            Some(digits) => (digits, 16),
            None if part.len() > 1 && part.starts_with('0') => (part.trim_start_matches('0'), 8),
            None => (*part, 10),
        };
        usual &= base == 10;
        let number = if digits.is_empty() && !part.is_empty() {
            0
        } else {
            u64::from_str_radix(digits, base).ok()?
        };
        let left = 4 - at;
        let last = at + 1 == parts.len();
        let bits = if last { 8 * left } else { 8 };
        // Clients disagree on numbers that are too large; some cut them.
        let most = 1_u64 << bits;
        if !last && number >= most {
            return None;
        }
        value = (value << bits) | (number % most);
        usual &= number < most;
    }
    // A single small number is a count or a port, and no address.
    if parts.len() == 1 && !text.starts_with("0x") && value < 0x0100_0000 && text != "0" {
        return None;
    }
    u32::try_from(value)
        .ok()
        .map(|value| (Ipv4Addr::from(value), usual))
}

/// The host of a URL, and whether the URL says it plainly: a back-slash, a blank or more than one `@`
/// lets clients read different hosts from one text.
#[must_use]
pub fn host_of_url(url: &str) -> Option<(String, bool)> {
    let (scheme, rest) = url.split_once(':')?;
    let named = !scheme.is_empty()
        && scheme
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b));
    if !named {
        return None;
    }
    // Clients take `http:\\host`, `http:/\host` and `http:///host` as `http://host`.
    let slashes = rest.trim_start_matches(['/', '\\']);
    let opened = rest.len() - slashes.len();
    let web = ["http", "https", "ftp", "ftps", "ws", "wss"]
        .iter()
        .any(|known| scheme.eq_ignore_ascii_case(known));
    if opened < 2 || (!web && !rest.starts_with("//")) {
        return None;
    }
    if !web && rest.starts_with("///") {
        return None;
    }
    let authority = slashes.split(['/', '?', '#', '\\']).next()?;
    let user = authority.rsplit_once('@').map_or("", |(user, _)| user);
    let host = authority.rsplit('@').next()?;
    let odd = opened != 2
        || rest.starts_with('\\')
        || slashes
            .split(['/', '?', '#'])
            .next()
            .is_some_and(|text| text.contains('\\'))
        || user.contains('@');
    let name = match host.strip_prefix('[') {
        Some(inner) => inner.split(']').next().unwrap_or(inner).to_owned(),
        None => host.split(':').next().unwrap_or(host).to_owned(),
    };
    (!name.is_empty()).then_some((name, !odd))
}

/// The host of what `user@host:path`, `host:port` or `host` names.
#[must_use]
pub fn host_of_operand(word: &str) -> String {
    let behind = word.rsplit('@').next().unwrap_or(word);
    if let Some(inner) = behind.strip_prefix('[') {
        return inner.split(']').next().unwrap_or(inner).to_owned();
    }
    // More than one colon is an IPv6 address without brackets.
    let name = match behind.matches(':').count() {
        1 => behind.split(':').next().unwrap_or(behind),
        _ => behind,
    };
    name.split('/').next().unwrap_or(name).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_leads_where_it_leads() {
        use Reach::{Loopback, Metadata, Private, Public, Reserved};
        let rows = [
            ("example.com", Public, true),
            ("8.8.8.8", Public, true),
            ("EXAMPLE.com.", Public, true),
            ("127.0.0.1", Loopback, true),
            ("localhost", Loopback, true),
            ("LOCALHOST", Loopback, true),
            ("app.localhost", Loopback, true),
            ("127.1", Loopback, false),
            ("2130706433", Loopback, false),
            ("0x7f000001", Loopback, false),
            ("0x7f.1", Loopback, false),
            ("0177.0.0.1", Loopback, false),
            ("017700000001", Loopback, false),
            ("0", Loopback, false),
            ("0.0.0.0", Loopback, true),
            ("::1", Loopback, true),
            ("[::1]", Loopback, true),
            ("[::]", Loopback, true),
            ("::ffff:127.0.0.1", Loopback, false),
            ("::ffff:7f00:1", Loopback, false),
            ("::127.0.0.1", Loopback, false),
            ("64:ff9b::7f00:1", Loopback, false),
            ("2002:7f00:1::", Loopback, false),
            ("127\u{3002}0\u{3002}0\u{3002}1", Loopback, false),
            ("１２７.０.０.１", Loopback, false),
            ("①②⑦.0.0.1", Loopback, false),
            ("127.0.0.1.nip.io", Loopback, false),
            ("10-0-0-1.sslip.io", Private, false),
            ("a.lvh.me", Loopback, false),
            ("10.1.2.3", Private, true),
            ("0x0a010203", Private, false),
            ("172.16.0.1", Private, true),
            ("172.32.0.1", Public, true),
            ("192.168.1.1", Private, true),
            ("100.64.0.1", Private, true),
            ("100.63.0.1", Public, true),
            ("169.254.1.1", Private, true),
            ("fe80::1%eth0", Private, true),
            ("fd12::1", Private, true),
            ("db.internal", Private, true),
            ("api.default.svc.cluster.local", Private, true),
            ("169.254.169.254", Metadata, true),
            ("2852039166", Metadata, false),
            ("0xa9fea9fe", Metadata, false),
            ("0251.0376.0251.0376", Metadata, false),
            ("169.254.43518", Metadata, false),
            ("169.16689662", Metadata, false),
            ("::ffff:a9fe:a9fe", Metadata, false),
            ("%31%36%39.254.169.254", Metadata, false),
            ("metadata.google.internal", Metadata, true),
            ("METADATA.google.INTERNAL.", Metadata, true),
            ("fd00:ec2::254", Metadata, true),
            ("169.254.169.254.nip.io", Metadata, false),
            ("224.0.0.1", Reserved, true),
            ("255.255.255.255", Reserved, true),
            ("ff02::1", Reserved, true),
            ("8080", Public, true),
            ("1.2.3", Public, false),
            ("v1.2", Public, true),
            ("a.b.c.d.e", Public, true),
        ];
        for (host, reach, plain) in rows {
            assert_eq!(of_host(host), Spelling { reach, plain }, "{host}");
        }
    }

    #[test]
    fn a_url_says_one_host_or_is_not_plain() {
        let rows = [
            ("https://example.com/x", Some(("example.com", true))),
            ("http://[::1]:8080/x", Some(("::1", true))),
            ("http://user:pass@host.test:80/", Some(("host.test", true))),
            (
                "http://good.test@169.254.169.254/",
                Some(("169.254.169.254", true)),
            ),
            ("http://evil.test\\@good.test/", Some(("evil.test", false))),
            ("http://a@b@c.test/", Some(("c.test", false))),
            ("http:\\\\127.1/", Some(("127.1", false))),
            ("http:///x.test/", Some(("x.test", false))),
            ("http://x.test?@y.test", Some(("x.test", true))),
            ("http://x.test#@y.test", Some(("x.test", true))),
            ("file:///etc/passwd", None),
            ("C:\\x", None),
            ("a:b", None),
            ("git@host:path", None),
        ];
        for (url, expected) in rows {
            let expected = expected.map(|(host, plain)| (host.to_owned(), plain));
            assert_eq!(host_of_url(url), expected, "{url}");
        }
        for (word, host) in [
            ("root@10.0.0.1:/x", "10.0.0.1"),
            ("10.0.0.1:22", "10.0.0.1"),
            ("[fe80::1]:22", "fe80::1"),
            ("fe80::1", "fe80::1"),
            ("db/x", "db"),
        ] {
            assert_eq!(host_of_operand(word), host);
        }
    }
}
