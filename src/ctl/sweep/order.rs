//! Several runs at once, whose results are looked at in the order of their requests.

use super::run::Run;
use crate::output::Failure;
use std::time::Duration;
use std::{collections::BTreeMap, ops::ControlFlow, sync::mpsc::channel, thread::scope};

/// Results that wait for that of an earlier run, at most.
const MOST_WAITING: usize = 1000;
/// How often the caller may say how far the sweep is while no run ends.
const TICK: Duration = Duration::from_millis(500);

pub trait Sweep {
    /// The result of the run, if it is known without one.
    fn known(&mut self, number: u64) -> Option<Run>;
    /// Whether a run may be made before the results of all earlier ones are known.
    fn may_be_early(&self, number: u64) -> bool;
    /// A run has ended, in any order.
    fn ended(&mut self, number: u64, run: &Run) -> Result<(), Failure>;
    /// Looks at a result, in their order, and decides whether the sweep goes on.
    fn look(&mut self, number: u64, run: Run) -> Result<ControlFlow<()>, Failure>;
    fn tick(&mut self);
}

/// A finished run; `None` if it was ended.
type Ended = Result<Option<Run>, Failure>;

/// Makes a run for each number, `jobs` at once, until the sweep has enough or a run is ended; then calls `finish`,
/// which ends those that are still going.
pub fn in_order(
    numbers: impl Iterator<Item = u64>,
    jobs: usize,
    run: impl Fn(u64) -> Ended + Sync,
    finish: impl Fn(),
    sweep: &mut impl Sweep,
) -> Result<(), Failure> {
    let run = &run;
    let mut numbers = numbers.peekable();
    let (sender, receiver) = channel();
    // The numbers that were started and not looked at, with the results that are known.
    let mut started: BTreeMap<u64, Option<Run>> = BTreeMap::new();
    let mut running = 0;
    scope(|scope| {
        let mut all = || loop {
            let may_start = |number: u64| {
                let may_be_early = || sweep.may_be_early(number) && started.len() < MOST_WAITING;
                running < jobs && (started.is_empty() || may_be_early())
            };
            if let Some(number) = numbers.next_if(|&number| may_start(number)) {
                let known = sweep.known(number);
                if known.is_none() {
                    running += 1;
                    let sender = sender.clone();
                    // Nobody receives it if the sweep has ended.
                    scope.spawn(move || drop(sender.send((number, run(number)))));
                }
                started.insert(number, known);
                continue;
            }
            let Some(mut first) = started.first_entry() else {
                return Ok(());
            };
            if let Some(run) = first.get_mut().take() {
                let (number, _) = first.remove_entry();
                if sweep.look(number, run)?.is_break() {
                    return Ok(());
                }
                continue;
            }
            let Ok((number, result)) = receiver.recv_timeout(TICK) else {
                sweep.tick();
                continue;
            };
            running -= 1;
            let Some(run) = result? else { return Ok(()) };
            sweep.ended(number, &run)?;
            started.insert(number, Some(run));
        };
        let result = all();
        finish();
        result
    })
}

#[cfg(test)]
mod tests {
    use super::super::ending::End;
    use super::*;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

    fn run_of(number: u64) -> Run {
        Run::of(End::Status(number as i32))
    }

    #[derive(Default)]
    struct Seen {
        looked: Vec<u64>,
        early: u64,
        last: u64,
    }

    impl Sweep for Seen {
        fn known(&mut self, _: u64) -> Option<Run> {
            None
        }
        fn may_be_early(&self, number: u64) -> bool {
            number <= self.early
        }
        fn ended(&mut self, _: u64, _: &Run) -> Result<(), Failure> {
            Ok(())
        }
        fn look(&mut self, number: u64, run: Run) -> Result<ControlFlow<()>, Failure> {
            assert_eq!(run.end, End::Status(number as i32));
            self.looked.push(number);
            Ok(match number == self.last {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            })
        }
        fn tick(&mut self) {}
    }

    #[test]
    fn no_run_begins_before_it_is_needed_unless_it_may_be_early() {
        let begun = Mutex::new(Vec::new());
        let run = |number: u64| {
            begun.lock().unwrap().push(number);
            Ok(Some(run_of(number)))
        };
        let mut seen = Seen {
            early: 3,
            last: 5,
            ..Seen::default()
        };
        assert!(in_order(1.., 8, run, || {}, &mut seen).is_ok());
        let mut begun = begun.into_inner().unwrap();
        begun.sort_unstable();
        assert_eq!(begun, [1, 2, 3, 4, 5]);
    }

    #[test]
    fn a_run_that_was_ended_or_cannot_be_made_ends_the_sweep_and_the_others() {
        for fails in [false, true] {
            let finished = AtomicU64::new(0);
            let run = |number: u64| match number {
                1 if fails => Err(Failure(String::new())),
                1 => Ok(None),
                _ => {
                    while finished.load(SeqCst) == 0 {
                        std::thread::yield_now();
                    }
                    Ok(Some(run_of(number)))
                }
            };
            let mut seen = Seen {
                early: 9,
                ..Seen::default()
            };
            let finish = || finished.store(1, SeqCst);
            assert_eq!(in_order(1.., 4, run, finish, &mut seen).is_err(), fails);
            assert!(seen.looked.is_empty() && finished.load(SeqCst) == 1);
        }
    }
}
