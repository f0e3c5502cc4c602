//! Points in time as the token services write them; seconds since 1970 in UTC everywhere else.

use std::time::{SystemTime, UNIX_EPOCH};

/// Now, by the wall clock: tokens run out by it, also while the machine sleeps.
pub(crate) fn now_s() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// `20150830T123600Z`; its first eight characters are the day.
pub(super) fn stamp(at_s: u64) -> String {
    let (year, month, day) = civil(at_s / 86_400);
    let (hour, minute, second) = (at_s / 3_600 % 24, at_s / 60 % 60, at_s % 60);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
}

/// Days since 1970 as a date, counted in years that begin in March so that leap days come last.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    (year, month, day)
}

/// `2015-08-30T12:36:00Z` (fractions and offsets of zero allowed) as seconds since 1970.
pub(super) fn rfc3339(text: &str) -> Option<u64> {
    let text = text.trim();
    let text = text
        .strip_suffix('Z')
        .or_else(|| text.strip_suffix("+00:00"))?;
    let (date, time) = text.split_once('T')?;
    let mut date = date.splitn(3, '-').map(|part| part.parse::<u64>().ok());
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    let time = time.split('.').next()?;
    let mut time = time.splitn(3, ':').map(|part| part.parse::<u64>().ok());
    let (hour, minute, second) = (time.next()??, time.next()??, time.next()??);
    let fits = (1970..=9999).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && second <= 60;
    if !fits {
        return None;
    }
    let (y, m) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let days = 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1;
    let days = days.checked_sub(719_468)?;
    Some(((days * 24 + hour) * 60 + minute) * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_and_their_reading_agree_over_centuries() {
        assert_eq!(stamp(1_440_938_160), "20150830T123600Z");
        assert_eq!(stamp(0), "19700101T000000Z");
        assert_eq!(stamp(951_782_400), "20000229T000000Z");
        for at in (0..8_000_000_000_u64).step_by(40_000_003) {
            let s = stamp(at);
            let part = |from: usize, to: usize| &s[from..to];
            let text = format!(
                "{}-{}-{}T{}:{}:{}Z",
                part(0, 4),
                part(4, 6),
                part(6, 8),
                part(9, 11),
                part(11, 13),
                part(13, 15)
            );
            assert_eq!(rfc3339(&text), Some(at), "{text}");
        }
        assert_eq!(
            rfc3339("2015-08-30T12:36:00.123+00:00"),
            Some(1_440_938_160)
        );
        for wrong in [
            "",
            "soon",
            "2015-13-30T12:36:00Z",
            "2015-08-30 12:36:00Z",
            "2015-08-30T12:36:00+02:00",
        ] {
            assert_eq!(rfc3339(wrong), None, "{wrong}");
        }
    }
}
