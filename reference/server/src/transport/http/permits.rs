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
pub const PROMOTED_MAX: usize = 256;

pub struct ConnectionPermits {
    max: usize,
    per_block_max: usize,
    counts: Mutex<PermitCounts>,
    emptied: Notify,
}

#[derive(Default)]
struct PermitCounts {
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
    kind: Mutex<PermitKind>,
    evicted: Arc<Notify>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PermitKind {
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
            counts: Mutex::default(),
            emptied: Notify::new(),
        })
    }

    /// A permit for a connection from `block`; `None` has no limit of its own. Beyond the limits the connection goes into the reserve.
    pub fn enter(self: &Arc<Self>, block: Option<AddressBlock>) -> ConnectionPermit {
        let mut counts = self.counts();
        let of_block = |block| counts.blocks.get(&block).copied().unwrap_or(0);
        let crowded = block.is_some_and(|block| of_block(block) >= self.per_block_max);
        let evicted = Arc::new(Notify::new());
        let kind = if counts.general < self.max && !crowded {
            counts.general += 1;
            if let Some(block) = block {
                *counts.blocks.entry(block).or_default() += 1;
            }
            PermitKind::General(block)
        } else {
            if counts.reserved.len() >= RESERVED_MAX
                && let Some(oldest) = counts.reserved.pop_front()
            {
                oldest.notify_one();
            }
            counts.reserved.push_back(evicted.clone());
            PermitKind::Reserved
        };
        counts.connections += 1;
        counts.most = counts.most.max(counts.connections);
        ConnectionPermit {
            permits: self.clone(),
            kind: Mutex::new(kind),
            evicted,
        }
    }

    /// Whether at least `crowd` connections existed at once, however briefly, and more than half of them are gone. True once for each
    /// crowd.
    pub fn has_crowd_left(&self, crowd: usize) -> bool {
        let mut counts = self.counts();
        let left = counts.most >= crowd && counts.connections < counts.most / 2;
        if left {
            counts.most = counts.connections;
        }
        left
    }

    /// Waits until no connection is left.
    pub async fn wait_until_empty(&self) {
        loop {
            let emptied = self.emptied.notified();
            if self.counts().connections == 0 {
                return;
            }
            emptied.await;
        }
    }

    fn counts(&self) -> MutexGuard<'_, PermitCounts> {
        lock(&self.counts)
    }
}

impl PermitCounts {
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
        *self.kind() == PermitKind::Reserved
    }

    /// Moves a connection that presented the right token out of the reserve. Returns false when it must stay there.
    pub fn promote(&self) -> bool {
        let mut kind = self.kind();
        if *kind != PermitKind::Reserved {
            return true;
        }
        let mut counts = self.permits.counts();
        if counts.general >= self.permits.max.saturating_add(PROMOTED_MAX)
            || !counts.leave_reserve(&self.evicted)
        {
            return false;
        }
        counts.general += 1;
        *kind = PermitKind::General(None);
        true
    }

    /// Waits until the connection is evicted from the reserve.
    pub async fn wait_until_evicted(&self) {
        self.evicted.notified().await;
    }

    fn kind(&self) -> MutexGuard<'_, PermitKind> {
        lock(&self.kind)
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let kind = *self.kind();
        let mut counts = self.permits.counts();
        match kind {
            PermitKind::Reserved => {
                counts.leave_reserve(&self.evicted);
            }
            PermitKind::General(block) => {
                counts.general -= 1;
                if let Some(block) = block
                    && let Some(count) = counts.blocks.get_mut(&block)
                {
                    *count -= 1;
                    if *count == 0 {
                        counts.blocks.remove(&block);
                    }
                }
            }
        }
        counts.connections -= 1;
        if counts.connections == 0 {
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
        let mut evicted = std::pin::pin!(permit.wait_until_evicted());
        evicted.as_mut().poll(&mut context).is_ready()
    }

    #[test]
    fn per_client_limit_and_reserve_leave_room_for_others() {
        let permits = ConnectionPermits::new(3, 2);
        let first = permits.enter(block(1));
        let counts = [permits.enter(block(1)), permits.enter(block(1))];
        assert!(!first.is_reserved() && !counts[0].is_reserved() && counts[1].is_reserved());
        let other = permits.enter(block(2));
        assert!(!other.is_reserved() && permits.enter(block(3)).is_reserved());
        drop(first);
        assert!(!permits.enter(block(1)).is_reserved());
        drop((counts, other));
        let counts = permits.counts();
        assert_eq!((counts.connections, counts.general), (0, 0));
        assert!(counts.blocks.is_empty() && counts.reserved.is_empty());
    }

    #[test]
    fn departed_crowd_is_reported_once() {
        let permits = ConnectionPermits::new(10, 10);
        let crowd = || (0..4).map(|_| permits.enter(None)).collect::<Vec<_>>();
        drop(crowd());
        assert!(permits.has_crowd_left(4) && !permits.has_crowd_left(4));
        let mut crowd = crowd();
        crowd.truncate(2);
        assert!(!permits.has_crowd_left(4), "half of them are still there");
        crowd.truncate(1);
        assert!(!permits.has_crowd_left(5) && permits.has_crowd_left(4));
    }

    #[test]
    fn full_reserve_evicts_its_oldest_connection() {
        let permits = ConnectionPermits::new(0, 1);
        let all: Vec<ConnectionPermit> = (0..=RESERVED_MAX).map(|_| permits.enter(None)).collect();
        assert!(all.iter().all(ConnectionPermit::is_reserved));
        assert!(is_evicted(&all[0]) && !is_evicted(&all[1]));
        assert!(!all[0].promote(), "it has lost its permit");
    }

    #[test]
    fn valid_token_is_promoted_while_there_is_room() {
        let permits = ConnectionPermits::new(0, 1);
        let all: Vec<ConnectionPermit> = (0..PROMOTED_MAX)
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
