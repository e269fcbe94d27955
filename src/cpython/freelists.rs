//! CPython's free lists: freed objects of common types, lists and tuples for instance, that are
//! handed out again without the allocator hearing of it.
//!
//! They are emptied by a full collection and by nothing else that every version offers. So that
//! it costs little and collects nothing, all objects are put aside for its length (`gc.freeze`).

use super::objects::{Gil, Kept, Returned, or_none};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Functions of `gc`.
struct Collector {
    freeze_count: Kept,
    freeze: Kept,
    collect: Kept,
    unfreeze: Kept,
}

/// Whether the lists were emptied before, when no script had run.
static STARTED: AtomicBool = AtomicBool::new(false);
static COLLECTOR: OnceLock<Option<Collector>> = OnceLock::new();

fn find(gil: Gil<'_>) -> Returned<'_, Collector> {
    let module = gil.import(c"gc")?;
    Ok(Collector {
        freeze_count: module.attribute(c"get_freeze_count")?.keep(),
        freeze: module.attribute(c"freeze")?.keep(),
        collect: module.attribute(c"collect")?.keep(),
        unfreeze: module.attribute(c"unfreeze")?.keep(),
    })
}

/// Empties the free lists, unless the script has put objects aside itself. Keeps the current exception.
pub fn clear(gil: Gil<'_>) {
    let Some(collector) = COLLECTOR.get_or_init(|| or_none(find(gil))) else {
        return;
    };
    gil.keeping_exception(|| {
        let call = |function: &Kept| or_none(function.get(gil).call(&[]));
        let is_zero = |count| call(count).is_some_and(|count| or_none(count.number()) == Some(0));
        // 3.12 starts with some put aside.
        let is_first = !STARTED.swap(true, Relaxed);
        if is_first || is_zero(&collector.freeze_count) {
            call(&collector.freeze);
            call(&collector.collect);
            call(&collector.unfreeze);
        }
    });
}
