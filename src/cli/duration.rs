//! Durations as systemd.time(7) writes them: `30`, `500ms`, `1min 30s`, `1.5h`. Pure.

use std::time::Duration;

/// The units and their length in nanoseconds. A number without a unit is in seconds.
const UNITS: &[(&[&str], u128)] = &[
    (&["nsec", "ns"], 1),
    (&["usec", "us", "µs", "μs"], 1_000),
    (&["msec", "ms"], 1_000_000),
    (&["seconds", "second", "sec", "s", ""], 1_000_000_000),
    (&["minutes", "minute", "min", "m"], 60 * 1_000_000_000),
    (&["hours", "hour", "hr", "h"], 3_600 * 1_000_000_000),
    (&["days", "day", "d"], 86_400 * 1_000_000_000),
    (&["weeks", "week", "w"], 7 * 86_400 * 1_000_000_000),
];

/// Reads a sum of numbers with units. `infinity` is refused: every wait of scopectl has an end.
pub(super) fn parse(text: &str) -> Result<Duration, String> {
    let refuse = |why: &str| format!("{text:?} is not a duration: {why}");
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(refuse("it is empty; write for example 30s or 1min 30s"));
    }
    if matches!(rest, "infinity" | "inf") {
        return Err(refuse("every wait has an end; write for example 1h"));
    }
    let mut total: u128 = 0;
    while !rest.is_empty() {
        let (whole, fraction, after) = number(rest).ok_or_else(|| {
            refuse("a number with a unit (us, ms, s, min, h, d, w) is expected, as in 1min 30s")
        })?;
        let after = after.trim_start();
        let end = after
            .find(|c: char| !c.is_alphabetic())
            .unwrap_or(after.len());
        let (unit, next) = after.split_at(end);
        let length = UNITS
            .iter()
            .find(|(names, _)| names.contains(&unit))
            .map(|(_, length)| *length)
            .ok_or_else(|| refuse("its unit is none of us, ms, s, min, h, d, w"))?;
        let nanoseconds =
            scaled(whole, fraction, length).ok_or_else(|| refuse("it is too long"))?;
        total = total
            .checked_add(nanoseconds)
            .ok_or_else(|| refuse("it is too long"))?;
        rest = next.trim_start();
    }
    u64::try_from(total)
        .map(Duration::from_nanos)
        .map_err(|_| refuse("it is too long"))
}

/// Splits off `12` or `12.5`: the digits before and after the point, and what follows.
fn number(text: &str) -> Option<(&str, &str, &str)> {
    let digits = |text: &str| {
        text.find(|c: char| !c.is_ascii_digit())
            .unwrap_or(text.len())
    };
    let (whole, after) = text.split_at(digits(text));
    let (fraction, after) = match after.strip_prefix('.') {
        Some(after) => after.split_at(digits(after)),
        None => ("", after),
    };
    (!whole.is_empty() || !fraction.is_empty()).then_some((whole, fraction, after))
}

/// `whole.fraction` times `length`, cut to whole nanoseconds.
fn scaled(whole: &str, fraction: &str, length: u128) -> Option<u128> {
    let whole: u128 = if whole.is_empty() {
        0
    } else {
        whole.parse().ok()?
    };
    // More digits than a nanosecond of a week has say nothing.
    let fraction = fraction.get(..fraction.len().min(16))?;
    let part = if fraction.is_empty() {
        0
    } else {
        let scale = 10_u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
        fraction.parse::<u128>().ok()?.checked_mul(length)? / scale
    };
    whole.checked_mul(length)?.checked_add(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_read_as_systemd_reads_it() {
        for (text, milliseconds) in [
            ("30", 30_000),
            ("0", 0),
            ("500ms", 500),
            ("500 ms", 500),
            ("1min 30s", 90_000),
            ("1min30s", 90_000),
            ("1m30", 90_000),
            (" 2 s ", 2_000),
            ("1.5s", 1_500),
            (".5s", 500),
            ("2.h", 7_200_000),
            ("1h 1h", 7_200_000),
            ("1w", 604_800_000),
            ("2000us", 2),
            ("2000µs", 2),
        ] {
            assert_eq!(
                parse(text),
                Ok(Duration::from_millis(milliseconds)),
                "{text:?}"
            );
        }
    }

    #[test]
    fn what_is_no_bounded_duration_is_refused_with_its_text() {
        for text in [
            "",
            " ",
            "infinity",
            "-1",
            "+1",
            "s",
            "1x",
            "1 s s",
            "1,5s",
            ".",
            "1e3",
            "nan",
            "99999999999999999999999999999999999999999s",
            "99999999999w",
            "1\n-",
            "５s",
        ] {
            match parse(text) {
                Ok(duration) => unreachable!("{text:?} was read as {duration:?}"),
                Err(sentence) => assert!(sentence.contains(&format!("{text:?}")), "{sentence}"),
            }
        }
    }
}
