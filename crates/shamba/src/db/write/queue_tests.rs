//! The write queue under a schedule checker: the same source as in use, with shuttle's locks.

mod sync {
    pub(super) use shuttle::hint::spin_loop;
    pub(super) use shuttle::sync::atomic::{AtomicU8, Ordering};
    pub(super) use shuttle::sync::{Arc, MutexGuard};

    pub(super) struct Mutex<T>(shuttle::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(super) fn new(value: T) -> Self {
            Mutex(shuttle::sync::Mutex::new(value))
        }

        pub(super) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap()
        }
    }

    pub(super) struct Condvar(shuttle::sync::Condvar);

    impl Condvar {
        pub(super) fn new() -> Self {
            Condvar(shuttle::sync::Condvar::new())
        }

        pub(super) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
            self.0.wait(guard).unwrap()
        }

        pub(super) fn notify_one(&self) {
            self.0.notify_one();
        }
    }
}

#[expect(
    clippy::duplicate_mod,
    reason = "the queue with the schedule checker's locks"
)]
#[path = "queue.rs"]
mod queue;

use queue::{Entered, Queue, QueuedJob};
use shuttle::sync::Arc;
use shuttle::sync::atomic::{AtomicUsize, Ordering};
use shuttle::thread;

/// Does `number`, and others' jobs while it leads, as the database does. Returns the result given
/// to it: the number's double.
fn submit(queue: &Queue<u32, u32>, leaders: &AtomicUsize, rounds: usize, number: u32) -> u32 {
    let finish = |group: Vec<Arc<QueuedJob<u32, u32>>>| {
        assert!(group.len() <= 2, "a group past its limit");
        group.iter().for_each(|place| place.finish(place.job * 2));
    };
    let lead = |jobs: &dyn Fn()| {
        assert_eq!(leaders.fetch_add(1, Ordering::SeqCst), 0, "two who lead");
        jobs();
        leaders.fetch_sub(1, Ordering::SeqCst);
    };
    let mut own = None;
    match queue.enter(number) {
        Entered::Leader(job) => {
            lead(&|| {});
            own = Some(job * 2);
        }
        Entered::Follower(place) => {
            if let Some(result) = place.wait(queue) {
                return result;
            }
            lead(&|| {
                let group = queue.take_group(2, |_| 1);
                assert!(Arc::ptr_eq(&group[0], &place), "its own job is not first");
                finish(group);
            });
            assert_eq!(place.wait(queue), Some(number * 2));
        }
    }
    let mut round = 0;
    while queue.pass_on(round >= rounds) {
        round += 1;
        lead(&|| finish(queue.take_group(2, |_| 1)));
    }
    own.unwrap_or(number * 2)
}

fn everyone_gets_its_own_result(looks: u32, rounds: usize) {
    let queue = Arc::new(Queue::new(looks));
    let leaders = Arc::new(AtomicUsize::new(0));
    let threads: Vec<_> = (0..3)
        .map(|thread| {
            let (queue, leaders) = (Arc::clone(&queue), Arc::clone(&leaders));
            thread::spawn(move || {
                for i in 0..2 {
                    let number = thread * 10 + i;
                    assert_eq!(submit(&queue, &leaders, rounds, number), number * 2);
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    // Nobody leads any more, and nobody waits.
    assert!(matches!(queue.enter(7), Entered::Leader(7)));
    assert!(queue.take_group(9, |_| 1).is_empty());
}

#[test]
fn everyone_gets_its_own_result_and_one_leads_at_a_time_in_random_schedules() {
    for (looks, rounds) in [(0, 0), (0, 2), (1, 0), (3, 2)] {
        shuttle::check_random(move || everyone_gets_its_own_result(looks, rounds), 1000);
        shuttle::check_pct(move || everyone_gets_its_own_result(looks, rounds), 500, 3);
    }
}
