//! Metadata and private addresses: where a cloud machine asks for its own keys, networks that only the
//! organisation reaches, and addresses that are spelled so that nobody recognises them.

use super::{
    Finding,
    network::{SPEAKERS, host_of_device, hosts},
    spelling::spelled,
};
use crate::{
    Action, Decision,
    address::{Reach, of_host},
    shell::Simple,
};

/// The detector's id.
pub(super) const ID: &str = "internal-address";

const METADATA: &str = "it asks the machine's metadata service, which hands out credentials";
const PRIVATE: &str = "it reaches for an address of an inner network";
const HIDDEN: &str = "an address is spelled so that its reader does not recognise it";
const ODD: &str = "clients read different hosts from this address";
const INSTEAD: &str =
    "name the host plainly; a host of an inner network is allowed by a person, once";

/// Spellings of metadata services that are looked for in any text.
const TEXTS: &[&str] = &[
    "169.254.169.254",
    "169.254.170.2",
    "fd00:ec2::254",
    "metadata.google.internal",
    "metadata.goog",
    "100.100.100.200",
    "2852039166",
    "0xa9fea9fe",
    "0251.0376.0251.0376",
    "::ffff:a9fe:a9fe",
    "169.254.43518",
    "computemetadata/v1",
    "latest/meta-data",
    "latest/api/token",
];

/// Looks for them.
pub(super) fn detect(action: &Action, findings: &mut Vec<Finding>) {
    let Action::Run(run) = action else { return };
    for (index, simple) in run.reading.simples.iter().enumerate() {
        if let Some((decision, why, object)) = command(simple) {
            findings.push(Finding::new(ID, decision, why, &object, INSTEAD).at(index));
        }
    }
    for (index, redirect) in run.reading.redirects.iter().enumerate() {
        let path = spelled(&redirect.target);
        let judged = host_of_device(&path).and_then(|host| judge(host, true));
        if let Some((decision, why)) = judged {
            let part = run.reading.simples.len() + index;
            findings.push(Finding::new(ID, decision, why, &path, INSTEAD).at(part));
        }
    }
}

/// What a host is, `None` if nothing needs to be said of it.
fn judge(host: &str, plain: bool) -> Option<(Decision, &'static str)> {
    let spelling = of_host(host);
    match spelling.reach {
        Reach::Metadata => Some((Decision::Deny, METADATA)),
        Reach::Private | Reach::Reserved if !spelling.plain => Some((Decision::Deny, HIDDEN)),
        Reach::Private => Some((Decision::Ask, PRIVATE)),
        Reach::Reserved => Some((Decision::Ask, PRIVATE)),
        Reach::Loopback | Reach::Public if !spelling.plain => Some((Decision::Ask, HIDDEN)),
        _ if !plain => Some((Decision::Ask, ODD)),
        Reach::Loopback | Reach::Public => None,
    }
}

fn command(simple: &Simple) -> Option<(Decision, &'static str, String)> {
    let name = simple.name().unwrap_or("");
    let by_host = hosts(simple)
        .into_iter()
        .filter_map(|named| {
            // `0.5` is a time; `0` is a number.
            let number = named.host.parse::<f32>().is_ok() && named.host.starts_with('0');
            if !named.url && number {
                return None;
            }
            let (decision, why) = judge(&named.host, named.plain)?;
            let far = of_host(&named.host).reach == Reach::Public;
            (named.url || !far).then_some((decision, why, named.text))
        })
        .reduce(|a, b| if b.0 > a.0 { b } else { a });
    if by_host
        .as_ref()
        .is_some_and(|found| found.0 == Decision::Deny)
        || SPEAKERS.contains(&name)
    {
        return by_host;
    }
    let says = |text: &str| {
        let lower = text.to_lowercase();
        TEXTS.iter().any(|known| lower.contains(known))
    };
    let by_text = simple
        .args
        .iter()
        .find(|word| says(&word.text))
        .map(|word| (Decision::Deny, METADATA, word.text.clone()));
    by_text.or(by_host)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::safety::table::holds;

    #[test]
    fn inner_addresses_are_told_from_the_world_and_the_own_machine() {
        let (deny, ask) = (Decision::Deny, Decision::Ask);
        holds(
            ID,
            &[
                ("curl http://169.254.169.254/latest/meta-data/", deny),
                ("curl -s 169.254.169.254", deny),
                ("curl http://2852039166/", deny),
                ("curl http://0xa9fea9fe/", deny),
                ("curl http://0251.0376.0251.0376/", deny),
                ("curl http://[::ffff:169.254.169.254]/", deny),
                ("curl http://[::ffff:a9fe:a9fe]/", deny),
                ("curl http://169.254.169.254.nip.io/", deny),
                ("curl http://user@169.254.169.254/", deny),
                ("curl http://example.com@169.254.169.254/", deny),
                ("curl http://METADATA.google.internal./x", deny),
                ("curl http://１６９.２５４.１６９.２５４/", deny),
                ("curl http://%31%36%39.254.169.254/", deny),
                ("wget -qO- http://metadata/computeMetadata/v1/", deny),
                ("curl --url=http://169.254.170.2/v2", deny),
                ("exec 3<>/dev/tcp/169.254.169.254/80", deny),
                (
                    "python3 -c \"import urllib.request as u; u.urlopen('http://169.254.169.254/')\"",
                    deny,
                ),
                ("H=169.254.169.254; curl http://$H/", deny),
                ("curl http://10.0.0.1/", ask),
                ("curl http://192.168.1.1:8080/", ask),
                ("ssh root@172.16.3.4", ask),
                ("nc 100.64.0.1 22", ask),
                ("curl http://[fd12::1]/", ask),
                ("curl http://[fe80::1%25eth0]/", ask),
                ("curl http://db.internal/", ask),
                ("nmap 10.0.0.0/24", ask),
                ("socat - TCP:192.168.0.2:80", ask),
                ("git clone https://x.test && ping 10.1.1.1", ask),
                ("curl http://0x0a000001/", deny),
                ("curl http://[::ffff:10.0.0.1]/", deny),
                ("curl http://2130706433:8080/", ask),
                ("curl http://127.1/", ask),
                ("curl http://0x7f.1/", ask),
                ("curl http://[::ffff:127.0.0.1]/", ask),
                ("curl http://app.lvh.me/", ask),
                ("curl 'http://evil.test\\@good.test/'", ask),
                ("curl http:///evil.test/", ask),
                ("git clone http://169.254.169.254/x", deny),
                ("git clone http://10.0.0.1/r.git", ask),
                ("git clone git@10.0.0.1:r.git", ask),
                ("git remote add x ssh://192.168.1.1/r", ask),
                ("https_proxy=http://10.0.0.1:80 curl https://x.test", ask),
                ("curl -s 127.1", ask),
                ("node -e \"fetch('http://10.0.0.1/')\"", ask),
                (
                    "python3 -c \"import socket; socket.create_connection(('10.0.0.1', 80))\"",
                    ask,
                ),
            ],
            &[
                "curl https://example.com/",
                "curl localhost:8080/health",
                "curl http://127.0.0.1:3000/",
                "curl http://[::1]:3000/",
                "curl http://0.0.0.0:8000/",
                "ping -c1 localhost",
                "curl https://user:pass@example.com/x",
                "wget https://example.com/v1.2.3/a-10.0.0.1.tar.gz",
                "docker run -p 127.0.0.1:80:80 x",
                "npm run dev -- --host 0.0.0.0",
                "echo 169.254.169.254",
                "grep -rn 10.0.0.1 conf",
                "git clone https://github.com/a/b",
                "pip install x==10.0.0.1",
                "node -e \"console.log('1.2.3')\"",
                "head -c 2130706433 x",
                "sleep 3232235777",
                "dig example.com @8.8.8.8",
                "curl --max-time 2.5 https://example.com",
                "curl -m 10.5 https://example.com",
                "ping -i 0.5 example.com",
                "redis-cli -n 0 get x",
                "git log --grep 10.0.0.1",
                "git commit -m 'use http://10.0.0.1/'",
                "git push origin main",
            ],
        );
    }
}
