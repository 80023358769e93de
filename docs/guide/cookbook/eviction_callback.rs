use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use ringfence::vulkan::{Allocator, Texture};

/// Lets the allocator take textures from a cache before a request fails for lack of memory.
pub fn eviction_callback(memory: &Allocator, cache: &Arc<Mutex<VecDeque<Texture>>>) {
    let cache = Arc::clone(cache);
    memory.budgets().set_eviction(Some(Box::new(move |_request| {
        let oldest = cache.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        oldest.is_some() // `true`: something was released, the request is tried again
    })));
}
