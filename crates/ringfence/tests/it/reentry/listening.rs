//! One subscriber of `tracing` for the whole program, which passes what is reported to the listener of the thread.
//!
//! `tracing` asks once whether a place in the code is of interest to anyone. With a subscriber for one thread alone
//! (`with_default`), the thread that comes by first may be another test's, which has none: its "no" then holds for all.

use std::cell::RefCell;
use std::sync::{Arc, Once};

use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

thread_local! {
    static LISTENER: RefCell<Option<Arc<dyn Subscriber>>> = const { RefCell::new(None) };
}

/// Does `work`; what this thread reports in it goes to the listener. One at a time.
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

/// The thread's listener. No borrow is held while it runs: what it does tells it more.
fn listener() -> Option<Arc<dyn Subscriber>> {
    LISTENER.with_borrow(Clone::clone)
}

fn tell(what: impl FnOnce(&dyn Subscriber)) {
    if let Some(listener) = listener() {
        what(&*listener);
    }
}

/// Of a span that no one listened to.
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
