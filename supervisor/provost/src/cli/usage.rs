//! `provost usage`: what model calls used and cost, added up over the record.

use std::process::ExitCode;

use serde_json::json;
use supervisor_core::{budget::dollars, escape::escape};
use supervisor_record::{UsageBy, UsageRow};

use super::{
    args::{UsageArgs, UsageWord},
    sessions,
};
use crate::{
    exit::{ENDED, Failure, USAGE},
    output,
    session::{now_ms, open_record, own_places},
};

/// Milliseconds of a day.
const DAY_MS: u64 = 86_400_000;

/// `provost usage`
pub(super) fn run(args: &UsageArgs) -> Result<ExitCode, Failure> {
    let places = own_places()?;
    let record = open_record(&places)?;
    let session = args
        .session
        .as_deref()
        .map(|word| sessions::find(&record, word))
        .transpose()?;
    let since = args.since.as_deref().map(|word| since(word, now_ms()));
    let since = since.transpose()?.unwrap_or(0);
    let by = match args.by {
        UsageWord::Session => UsageBy::Session,
        UsageWord::Model => UsageBy::Model,
        UsageWord::Provider => UsageBy::Provider,
        UsageWord::Day => UsageBy::Day,
        UsageWord::Account => UsageBy::Account,
    };
    let rows = record
        .usage(session.as_ref(), since, by)
        .map_err(|error| Failure::new(ENDED, error.to_string()))?;
    if args.json {
        let object = json!({ "v": 1, "since_ms": since, "rows": rows });
        output::out(&format!("{object}\n"));
        return Ok(ExitCode::SUCCESS);
    }
    for row in &rows {
        output::out(&format!("{}\n", line(row)));
    }
    if rows.is_empty() {
        output::err("no model call was made in that time\n");
    }
    Ok(ExitCode::SUCCESS)
}

fn line(row: &UsageRow) -> String {
    let known = |figure: Option<u64>| figure.map_or_else(|| "?".to_owned(), |n| n.to_string());
    let mut notes = String::new();
    for (count, words) in [
        (row.failed, "failed"),
        (row.estimated, "estimated"),
        (row.unpriced, "without a known price"),
    ] {
        if count > 0 {
            notes.push_str(&format!(" · {count} {words}"));
        }
    }
    format!(
        "{:<40} {:>5} call(s) {:>10} in {:>10} cached {:>9} out  {}{notes}",
        escape(&row.name, false),
        row.calls,
        known(row.usage.input_uncached),
        known(row.usage.cache_read),
        known(row.usage.output),
        dollars(row.micro_usd),
    )
}

/// A day, or a time back from now, as Unix time in milliseconds.
fn since(word: &str, now_ms: u64) -> Result<u64, Failure> {
    let bad = || {
        Failure::new(
            USAGE,
            format!("--since: `{}` is no time", escape(word, false)),
        )
        .help("write a day as 2026-11-30 (UTC), or a time back from now as 90m, 24h or 7d")
    };
    if let [year, month, day] = word.split('-').collect::<Vec<_>>().as_slice() {
        let figure = |text: &str| text.parse::<i64>().ok();
        let days = figure(year).zip(figure(month)).zip(figure(day));
        let ((year, month), day) = days.ok_or_else(bad)?;
        if !(1970..=9_999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day)
        {
            return Err(bad());
        }
        return u64::try_from(days_since_1970(year, month, day))
            .map(|days| days * DAY_MS)
            .map_err(|_| bad());
    }
    let end = word.len().saturating_sub(1);
    let (number, unit) = word.split_at_checked(end).ok_or_else(bad)?;
    let factor = match unit {
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => DAY_MS,
        _ => return Err(bad()),
    };
    let number: u64 = number.parse().map_err(|_| bad())?;
    Ok(now_ms.saturating_sub(number.saturating_mul(factor)))
}

/// Days from 1970-01-01 to a day of the Gregorian calendar; March begins its year, so that the leap
/// day is the last one.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let leaps = year / 4 - year / 100 + year / 400;
    year * 365 + leaps + (month * 153 + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_times_back_are_read_and_everything_else_is_refused() {
        let day = |word: &str| since(word, 0).expect(word) / DAY_MS;
        assert_eq!(day("1970-01-01"), 0);
        assert_eq!(day("1970-03-01"), 59);
        assert_eq!(day("2000-03-01"), 11_017);
        assert_eq!(day("2026-11-30"), 20_787);
        let now = 10 * DAY_MS;
        assert_eq!(since("7d", now).expect("days"), 3 * DAY_MS);
        assert_eq!(since("90m", now).expect("minutes"), now - 5_400_000);
        assert_eq!(since("99999d", now).expect("long ago"), 0);
        for bad in [
            "",
            "d",
            "7",
            "7w",
            "2026-13-01",
            "2026-1-1-1",
            "-7d",
            "x-y-z",
            "1900-01-01",
            "é",
        ] {
            assert!(since(bad, now).is_err(), "{bad}");
        }
    }
}
