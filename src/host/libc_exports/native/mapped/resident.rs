//! How much is resident of what libraries have mapped: the kernel is asked about each page.

use super::lock::{is_used, with_table_at_once};
use super::table::Range;
use pyhost_os::mapping::{FromZeros, resident_bytes};

/// Ranges that are looked up at a time: the lock of the table is not held while the kernel is asked.
const BATCH: usize = 32;

/// Visits every range that counts, with the bytes of it that are resident; what is mapped or given back meanwhile may be left out.
/// Returns `None` if another thread has the table. Any thread, also inside the allocator: it allocates nothing, waits for
/// nobody, and takes six kibibytes of the stack.
pub fn each_resident(mut visit: impl FnMut(&Range, u64)) -> Option<()> {
    let mut batch: [Range; BATCH] = std::array::from_fn(|_| Range::zeroed());
    let mut behind = 0;
    while is_used() {
        let count = with_table_at_once(|table| table.copy_behind(behind, &mut batch))?;
        for range in &batch[..count] {
            visit(range, resident_bytes(range.start..range.end));
            behind = range.end;
        }
        if count < BATCH {
            break;
        }
    }
    Some(())
}

/// Resident bytes of the ranges that count; as [`each_resident`].
pub fn resident() -> Option<u64> {
    let mut bytes = 0;
    each_resident(|_, resident| bytes += resident)?;
    Some(bytes)
}
