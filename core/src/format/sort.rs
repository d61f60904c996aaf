//! Sorting in place without a way to panic, which the sorts of Rust's core library have: they look at whether the
//! order that they are given is one.

/// Sorts so that no item has one before it that it `precedes`. Heapsort: at most about 2 n log2 n comparisons, and n
/// for items that are in order already, as those of most files are.
pub(super) fn sort_by<T>(items: &mut [T], precedes: impl Fn(&T, &T) -> bool) {
    if items.is_sorted_by(|a, b| !precedes(b, a)) {
        return;
    }
    for root in (0..items.len() >> 1).rev() {
        sift_down(items, root, &precedes);
    }
    for last in (1..items.len()).rev() {
        swap(items, 0, last);
        sift_down(items.get_mut(..last).unwrap_or_default(), 0, &precedes);
    }
}

/// Moves the item at `root` down until none of its children is behind it in the order.
fn sift_down<T>(items: &mut [T], mut root: usize, precedes: impl Fn(&T, &T) -> bool) {
    loop {
        let left = root.saturating_mul(2).saturating_add(1);
        let right = left.saturating_add(1);
        let child = match (items.get(left), items.get(right)) {
            (Some(a), Some(b)) if precedes(a, b) => right,
            _ => left,
        };
        match (items.get(root), items.get(child)) {
            (Some(above), Some(below)) if precedes(above, below) => swap(items, root, child),
            _ => return,
        }
        root = child;
    }
}

/// Exchanges two items, the first before the second.
fn swap<T>(items: &mut [T], first: usize, second: usize) {
    if let Some((before, from)) = items.split_at_mut_checked(second) {
        if let (Some(a), Some(b)) = (before.get_mut(first), from.first_mut()) {
            core::mem::swap(a, b);
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::sort_by;

    #[test]
    fn sorts_as_the_standard_library() {
        let mut state = 1u32;
        for len in 0..200 {
            for values in [3, 50, 1 << 20] {
                let mut items: Vec<u32> = (0..len)
                    .map(|_| {
                        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                        (state >> 8) % values
                    })
                    .collect();
                let mut expected = items.clone();
                expected.sort_unstable();
                sort_by(&mut items, |a, b| a < b);
                assert_eq!(items, expected);
                sort_by(&mut items, |a, b| a < b);
                assert_eq!(items, expected);
            }
        }
    }
}
