//! Racing attempts: started one after another without waiting for each to fail.

use core::{
    future::{Future, poll_fn},
    pin::Pin,
    task::Poll,
    time::Duration,
};

/// Pause between two addresses of one peer (RFC 8305: 100 ms to 2 s, 250 ms recommended): an address that
/// answers does so within it nearly everywhere, and five dead ones cost a second.
pub(crate) const STAGGER: Duration = Duration::from_millis(200);

/// First success of `attempts`, or all errors in the order of failure. The next attempt begins when the one before
/// has failed or taken `stagger`; the first success drops the attempts still running.
pub(crate) async fn race<T, E, F>(
    attempts: impl IntoIterator<Item = F>,
    stagger: Duration,
) -> Result<T, Vec<E>>
where
    F: Future<Output = Result<T, E>>,
{
    let mut waiting = attempts.into_iter();
    let mut running: Vec<Pin<Box<F>>> = Vec::new();
    let mut errors = Vec::new();
    let pause = tokio::time::sleep(Duration::ZERO);
    tokio::pin!(pause);
    let mut start = true;
    loop {
        if core::mem::take(&mut start) {
            match waiting.next() {
                Some(attempt) => {
                    running.push(Box::pin(attempt));
                    pause.set(tokio::time::sleep(stagger));
                }
                None if running.is_empty() => return Err(errors),
                None => pause.set(tokio::time::sleep(FAR)),
            }
        }
        let step = poll_fn(|cx| {
            for n in 0..running.len() {
                if let Poll::Ready(result) = running[n].as_mut().poll(cx) {
                    drop(running.remove(n));
                    return Poll::Ready(Some(result));
                }
            }
            pause.as_mut().poll(cx).map(|()| None)
        });
        match step.await {
            Some(Ok(value)) => return Ok(value),
            Some(Err(error)) => {
                errors.push(error);
                start = true;
            }
            None => start = true,
        }
    }
}

/// Timeout used when no further attempt is left to start: the running attempts end by themselves.
const FAR: Duration = Duration::from_secs(3600);

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::RefCell;
    use tokio::time::{Instant, sleep};

    #[tokio::test(start_paused = true)]
    async fn a_dead_address_costs_its_stagger() {
        let start = Instant::now();
        let attempts = (0..6_u64).map(|n| async move {
            if n == 5 {
                sleep(Duration::from_millis(10)).await;
                return Ok(n);
            }
            sleep(Duration::from_secs(30)).await;
            Err(())
        });
        assert_eq!(race(attempts, STAGGER).await, Ok(5));
        assert_eq!(start.elapsed(), 5 * STAGGER + Duration::from_millis(10));
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_does_not_wait_for_the_pause() {
        let start = Instant::now();
        let attempts = [Err("a"), Err("b"), Ok(3)].map(|result| async move { result });
        assert_eq!(race(attempts, STAGGER).await, Ok(3));
        assert_eq!(start.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn who_started_first_may_still_win() {
        let attempts = [500_u64, 5000].map(|ms| async move {
            sleep(Duration::from_millis(ms)).await;
            Ok::<_, ()>(ms)
        });
        assert_eq!(race(attempts, STAGGER).await, Ok(500));
    }

    #[tokio::test(start_paused = true)]
    async fn all_errors_when_all_fail() {
        let ended = RefCell::new(Vec::new());
        let attempts = [300_u64, 50, 400].map(|ms| {
            let ended = &ended;
            async move {
                sleep(Duration::from_millis(ms)).await;
                ended.borrow_mut().push(ms);
                Err::<(), _>(ms)
            }
        });
        assert_eq!(race(attempts, STAGGER).await, Err(vec![50, 300, 400]));
        assert_eq!(*ended.borrow(), [50, 300, 400]);
        let none: [core::future::Ready<Result<(), ()>>; 0] = [];
        assert_eq!(race(none, STAGGER).await, Err(vec![]));
    }
}
