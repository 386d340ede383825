//! Failures and times in, blocks out.

use super::*;
use std::net::IpAddr;

fn source(number: u32) -> AddressBlock {
    IpAddr::from(number.to_be_bytes()).into()
}

/// The limit of a server without a shared store.
fn local_limit(failures_max: u64, block_ms: u64, window_ms: u64) -> RateLimit {
    let settings = RateLimitSettings {
        window_ms,
        failures_max,
        block_ms,
    };
    RateLimit::new(settings, None)
}

/// Each step is a wait in milliseconds before a failed attempt; returns the results of the attempts.
fn check(failures_max: u64, block_ms: u64, window_ms: u64, waits: &[u64]) -> String {
    let limit = local_limit(failures_max, block_ms, window_ms);
    let source = source(1);
    let mut now = Instant::now();
    let mut results = Vec::new();
    for wait in waits {
        now += Duration::from_millis(*wait);
        results.push(match limit.blocked(source, now) {
            Some(_) => "429",
            None => {
                limit.failed(source, now);
                "401"
            }
        });
    }
    results.join(" ")
}

#[test]
fn failure_that_reaches_the_limit_is_still_answered() {
    assert_eq!(check(3, 1000, 60_000, &[0, 0, 0, 0]), "401 401 401 429");
}

#[test]
fn expired_block_keeps_the_count() {
    assert_eq!(
        check(3, 1000, 60_000, &[0, 0, 0, 0, 1200, 0]),
        "401 401 401 429 401 429"
    );
}

#[test]
fn expired_window_clears_the_count() {
    assert_eq!(
        check(3, 1000, 500, &[0, 0, 600, 0, 0, 0]),
        "401 401 401 401 401 429"
    );
}

#[test]
fn success_clears_the_count() {
    let limit = local_limit(2, 1000, 1000);
    let (source, now) = (source(2), Instant::now());
    assert_eq!(limit.failed(source, now), LoginFailure::Counted);
    limit.succeeded(source, now);
    assert_eq!(limit.failed(source, now), LoginFailure::Counted);
    assert_eq!(limit.failed(source, now), LoginFailure::Blocks);
    assert!(limit.blocked(source, now).is_some());
    limit.succeeded(source, now);
    assert!(limit.blocked(source, now).is_some(), "the block stays");
}

#[test]
fn remembered_sources_are_bounded() {
    let limit = local_limit(2, 1000, 1000);
    let now = Instant::now();
    for number in 0..20_000u32 {
        limit.failed(source(number), now);
        if number > 17_000 {
            break;
        }
    }
    assert!(limit.sources().len() <= SOURCES_MAX);
    limit.sweep(now + Duration::from_millis(1001));
    assert!(limit.sources().is_empty());
}
