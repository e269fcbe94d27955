//! How much is resident of what libraries have mapped: the kernel is asked about each page.

use super::lock::with_table_at_once;
use pyhost_os::mapping::resident_bytes;

/// Ranges that are looked up at a time: the lock of the table is not held while the kernel is asked.
const BATCH: usize = 32;

/// Resident bytes of the ranges that count. Returns `None` if another thread has the table. Any thread, also inside the
/// allocator: it allocates nothing, waits for nobody, and takes five kibibytes of the stack.
pub fn resident() -> Option<u64> {
    let (mut bytes, mut from) = (0, 0);
    loop {
        let mut batch = [const { 0..0 }; BATCH];
        let count = with_table_at_once(|table| table.copy_from(from, &mut batch))?;
        bytes += batch[..count]
            .iter()
            .cloned()
            .map(resident_bytes)
            .sum::<u64>();
        if count < BATCH {
            return Some(bytes);
        }
        from = batch[count - 1].end;
    }
}
