//! Permits for connections: a limit for all together, a limit for each client, and a reserve for connections beyond these: for a health
//! check, or the holder of the token. Knows nothing of sockets or requests.

use super::address::AddressBlock;
use crate::lock::lock;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::Notify;

/// Connections in the reserve. When it is full, its oldest connection is evicted, so that a new one always gets in.
pub const RESERVED_MAX: usize = 64;
/// Connections that left the reserve with the right token; they are allowed beyond the limit for all.
pub const PROVEN_MAX: usize = 256;

pub struct ConnectionPermits {
    max: usize,
    per_block_max: usize,
    held: Mutex<Held>,
    emptied: Notify,
}

#[derive(Default)]
struct Held {
    connections: usize,
    /// The peak number of connections since a crowd last left.
    most: usize,
    general: usize,
    blocks: HashMap<AddressBlock, usize>,
    reserved: VecDeque<Arc<Notify>>,
}

/// One connection's permit, released on drop.
pub struct ConnectionPermit {
    permits: Arc<ConnectionPermits>,
    standing: Mutex<Standing>,
    evicted: Arc<Notify>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// Counted towards the limit for all, and towards that of this block.
    General(Option<AddressBlock>),
    Reserved,
}

impl ConnectionPermits {
    /// `max` permits, of which one block may have `per_block_max`.
    pub fn new(max: usize, per_block_max: usize) -> Arc<Self> {
        Arc::new(ConnectionPermits {
            max,
            per_block_max,
            held: Mutex::default(),
            emptied: Notify::new(),
        })
    }

    /// A permit for a connection from `block`; `None` has no limit of its own. Beyond the limits the connection goes into the reserve.
    pub fn enter(self: &Arc<Self>, block: Option<AddressBlock>) -> ConnectionPermit {
        let mut held = self.held();
        let of_block = |block| held.blocks.get(&block).copied().unwrap_or(0);
        let crowded = block.is_some_and(|block| of_block(block) >= self.per_block_max);
        let evicted = Arc::new(Notify::new());
        let standing = if held.general < self.max && !crowded {
            held.general += 1;
            if let Some(block) = block {
                *held.blocks.entry(block).or_default() += 1;
            }
            Standing::General(block)
        } else {
            if held.reserved.len() >= RESERVED_MAX
                && let Some(oldest) = held.reserved.pop_front()
            {
                oldest.notify_one();
            }
            held.reserved.push_back(evicted.clone());
            Standing::Reserved
        };
        held.connections += 1;
        held.most = held.most.max(held.connections);
        ConnectionPermit {
            permits: self.clone(),
            standing: Mutex::new(standing),
            evicted,
        }
    }

    /// Whether at least `crowd` connections existed at once, however briefly, and more than half of them are gone. True once for each
    /// crowd.
    pub fn crowd_has_left(&self, crowd: usize) -> bool {
        let mut held = self.held();
        let left = held.most >= crowd && held.connections < held.most / 2;
        if left {
            held.most = held.connections;
        }
        left
    }

    /// Waits until no connection is left.
    pub async fn emptied(&self) {
        loop {
            let emptied = self.emptied.notified();
            if self.held().connections == 0 {
                return;
            }
            emptied.await;
        }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        lock(&self.held)
    }
}

impl Held {
    fn leave_reserve(&mut self, evicted: &Arc<Notify>) -> bool {
        let found = self
            .reserved
            .iter()
            .position(|other| Arc::ptr_eq(other, evicted));
        found.and_then(|at| self.reserved.remove(at)).is_some()
    }
}

impl ConnectionPermit {
    /// Whether the connection is in the reserve.
    pub fn is_reserved(&self) -> bool {
        *self.standing() == Standing::Reserved
    }

    /// Moves a connection that presented the right token out of the reserve. Returns false when it must stay there.
    pub fn promote(&self) -> bool {
        let mut standing = self.standing();
        if *standing != Standing::Reserved {
            return true;
        }
        let mut held = self.permits.held();
        if held.general >= self.permits.max.saturating_add(PROVEN_MAX)
            || !held.leave_reserve(&self.evicted)
        {
            return false;
        }
        held.general += 1;
        *standing = Standing::General(None);
        true
    }

    /// Waits until the connection is evicted from the reserve.
    pub async fn evicted(&self) {
        self.evicted.notified().await;
    }

    fn standing(&self) -> MutexGuard<'_, Standing> {
        lock(&self.standing)
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let standing = *self.standing();
        let mut held = self.permits.held();
        match standing {
            Standing::Reserved => {
                held.leave_reserve(&self.evicted);
            }
            Standing::General(block) => {
                held.general -= 1;
                if let Some(block) = block
                    && let Some(count) = held.blocks.get_mut(&block)
                {
                    *count -= 1;
                    if *count == 0 {
                        held.blocks.remove(&block);
                    }
                }
            }
        }
        held.connections -= 1;
        if held.connections == 0 {
            self.permits.emptied.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;

    fn block(last: u8) -> Option<AddressBlock> {
        Some(IpAddr::from([10, 0, 0, last]).into())
    }

    fn is_evicted(permit: &ConnectionPermit) -> bool {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        let mut evicted = std::pin::pin!(permit.evicted());
        evicted.as_mut().poll(&mut context).is_ready()
    }

    #[test]
    fn one_block_leaves_room_for_others_and_all_leave_the_reserve() {
        let permits = ConnectionPermits::new(3, 2);
        let first = permits.enter(block(1));
        let held = [permits.enter(block(1)), permits.enter(block(1))];
        assert!(!first.is_reserved() && !held[0].is_reserved() && held[1].is_reserved());
        let other = permits.enter(block(2));
        assert!(!other.is_reserved() && permits.enter(block(3)).is_reserved());
        drop(first);
        assert!(!permits.enter(block(1)).is_reserved());
        drop((held, other));
        let held = permits.held();
        assert_eq!((held.connections, held.general), (0, 0));
        assert!(held.blocks.is_empty() && held.reserved.is_empty());
    }

    #[test]
    fn a_crowd_that_came_and_went_unseen_is_told_once() {
        let permits = ConnectionPermits::new(10, 10);
        let crowd = || (0..4).map(|_| permits.enter(None)).collect::<Vec<_>>();
        drop(crowd());
        assert!(permits.crowd_has_left(4) && !permits.crowd_has_left(4));
        let mut crowd = crowd();
        crowd.truncate(2);
        assert!(!permits.crowd_has_left(4), "half of them are still there");
        crowd.truncate(1);
        assert!(!permits.crowd_has_left(5) && permits.crowd_has_left(4));
    }

    #[test]
    fn a_full_reserve_takes_newcomers_and_loses_its_oldest() {
        let permits = ConnectionPermits::new(0, 1);
        let all: Vec<ConnectionPermit> = (0..=RESERVED_MAX).map(|_| permits.enter(None)).collect();
        assert!(all.iter().all(ConnectionPermit::is_reserved));
        assert!(is_evicted(&all[0]) && !is_evicted(&all[1]));
        assert!(!all[0].promote(), "it has lost its permit");
    }

    #[test]
    fn the_right_token_leaves_the_reserve_as_far_as_there_is_room() {
        let permits = ConnectionPermits::new(0, 1);
        let all: Vec<ConnectionPermit> = (0..PROVEN_MAX)
            .map(|_| {
                let permit = permits.enter(None);
                assert!(permit.promote() && !permit.is_reserved() && permit.promote());
                permit
            })
            .collect();
        assert!(!permits.enter(None).promote());
        drop(all);
        assert!(permits.enter(None).promote());
    }
}
