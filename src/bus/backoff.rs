//! How long to wait between two attempts to connect. Pure but for the random number.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(5);
const LONGEST: Duration = Duration::from_millis(500);

/// Grows by two each time; a random part keeps many clients of one restarting manager from coming back at the same moment.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    attempt: u32,
}

impl Backoff {
    /// The next pause.
    pub(super) fn pause(&mut self) -> Duration {
        let pause = pause(self.attempt, random());
        self.attempt = self.attempt.saturating_add(1);
        pause
    }
}

/// Between half of the step and the whole of it.
fn pause(attempt: u32, random: u32) -> Duration {
    let step = FIRST
        .saturating_mul(1_u32.checked_shl(attempt).unwrap_or(u32::MAX))
        .min(LONGEST);
    let half = step / 2;
    half + half.mul_f64(f64::from(random) / f64::from(u32::MAX))
}

fn random() -> u32 {
    let mut bytes = [0; 4];
    match rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::NONBLOCK) {
        Ok(4) => u32::from_ne_bytes(bytes),
        // Early boot, before the kernel's pool is ready, or a filter that forbids the call: the clock and the process ID differ between clients as well.
        _ => {
            let nanos = std::time::SystemTime::now()
                .duration_since(std::time::UNIX_EPOCH)
                .map_or(0, |time| time.subsec_nanos());
            nanos.wrapping_mul(std::process::id() | 1)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_between_half_and_the_whole_of_a_step_that_doubles_up_to_a_bound() {
        for attempt in [0, 1, 2, 6, 7, 31, 32, u32::MAX] {
            let step = Duration::from_millis(if attempt > 6 { 500 } else { 5 << attempt });
            assert_eq!(pause(attempt, 0), step / 2);
            assert_eq!(pause(attempt, u32::MAX), step);
        }
    }

    #[test]
    fn two_pauses_differ() {
        let pauses: std::collections::BTreeSet<_> =
            (0..16).map(|_| Backoff::default().pause()).collect();
        assert!(pauses.len() > 1);
    }
}
