//! Human sizes and times: "2GiB", "512 MiB", "30m", "1h30m".

/// Parses a size into bytes.
pub(super) fn size(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let unit: u64 = match unit.trim() {
        "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        "kB" | "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}

/// Parses a time into whole seconds.
pub(super) fn time(text: &str) -> Option<u64> {
    let mut rest = text.trim();
    let mut total: u64 = 0;
    // Each unit once and in falling order, so that "5m3h" is a slip and not three hours.
    let mut smaller_than = u64::MAX;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let (number, tail) = rest.split_at(digits);
        let (unit, width) = match tail.chars().next()? {
            'd' => (86_400, 1),
            'h' => (3_600, 1),
            'm' => (60, 1),
            's' => (1, 1),
            _ => return None,
        };
        if unit >= smaller_than {
            return None;
        }
        smaller_than = unit;
        total = total.checked_add(number.parse::<u64>().ok()?.checked_mul(unit)?)?;
        rest = tail.get(width..)?.trim_start();
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_are_read_or_refused() {
        let sizes = [
            ("2GiB", Some(2 << 30)),
            ("512 MiB", Some(512 << 20)),
            ("10kB", Some(10_000)),
            ("7 B", Some(7)),
            ("12", None),
            ("2gb", None),
            ("-1MiB", None),
            ("1.5GiB", None),
            ("99999999999999TiB", None),
            ("", None),
        ];
        for (text, bytes) in sizes {
            assert_eq!(size(text), bytes, "{text}");
        }
        let times = [
            ("30m", Some(1800)),
            ("90s", Some(90)),
            ("1h30m", Some(5400)),
            ("1h 30m", Some(5400)),
            ("2d", Some(172_800)),
            ("30", None),
            ("m", None),
            ("5m3h", None),
            ("1m1m", None),
            ("", None),
        ];
        for (text, seconds) in times {
            assert_eq!(time(text), seconds, "{text}");
        }
    }
}
