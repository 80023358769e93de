//! The only subscriber of `tracing` in the program. It passes each report to the listener of the reporting thread.
//!
//! `tracing` queries only once whether a code location is of interest to any subscriber. With subscribers per thread
//! (`with_default`), the first thread to reach the location may belong to another test and have no subscriber; its
//! answer "no" would then apply to all threads.

use std::cell::RefCell;
use std::sync::{Arc, Once};

use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

thread_local! {
    static LISTENER: RefCell<Option<Arc<dyn Subscriber>>> = const { RefCell::new(None) };
}

/// Does `work`, and passes the reports of this thread to the listener. Allows one call at a time.
pub fn listen(listener: impl Subscriber, work: impl FnOnce()) {
    static GLOBAL: Once = Once::new();
    GLOBAL.call_once(|| tracing::subscriber::set_global_default(ByThread).expect("the first one"));
    LISTENER.set(Some(Arc::new(listener)));
    let _no_more = OnDrop; // also when the work panics
    work();
}

struct OnDrop;

impl Drop for OnDrop {
    fn drop(&mut self) {
        LISTENER.take();
    }
}

struct ByThread;

/// Returns the thread's listener. No borrow is held while it runs, because its actions cause more reports.
fn listener() -> Option<Arc<dyn Subscriber>> {
    LISTENER.with_borrow(Clone::clone)
}

fn tell(what: impl FnOnce(&dyn Subscriber)) {
    if let Some(listener) = listener() {
        what(&*listener);
    }
}

/// Id of a span without a listener.
const UNHEARD: u64 = 1 << 63;

impl Subscriber for ByThread {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "ringfence"
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        listener().map_or(Id::from_u64(UNHEARD), |listener| listener.new_span(span))
    }

    fn record(&self, id: &Id, values: &Record<'_>) {
        tell(|listener| listener.record(id, values));
    }

    fn record_follows_from(&self, id: &Id, follows: &Id) {
        tell(|listener| listener.record_follows_from(id, follows));
    }

    fn event(&self, event: &Event<'_>) {
        tell(|listener| listener.event(event));
    }

    fn enter(&self, id: &Id) {
        tell(|listener| listener.enter(id));
    }

    fn exit(&self, id: &Id) {
        tell(|listener| listener.exit(id));
    }

    fn try_close(&self, id: Id) -> bool {
        listener().is_none_or(|listener| listener.try_close(id))
    }
}
