//! The invariants of heaps, spans, objects and caches between calls. O(heaps + objects + spans).

use ringfence_core::range::Invalid;

use super::state::State;
use crate::device::Device;

impl<D: Device> State<D> {
    pub(super) fn validate(&self) -> Result<(), Invalid> {
        let rule = Invalid::unless;
        for (number, heap) in (0..).zip(&self.heaps) {
            let Some(heap) = heap else { continue };
            heap.spans.validate(heap.bytes)?;
            let inside = self.objects.iter().flatten().filter(|object| object.heap == Some(number)).count();
            rule(inside == heap.object_count, "the object count of a heap is wrong", u64::from(number))?;
            for span in heap.spans.iter().filter(|span| span.in_use) {
                let tenant = self.objects[span.tenant as usize].as_ref();
                let is_whole = tenant.is_some_and(|object| {
                    object.heap == Some(number)
                        && object.tenancy.is_some()
                        && (object.offset, object.offset + object.size) == (span.offset, span.end)
                });
                rule(is_whole, "a span in use does not cover exactly one object in use", span.offset)?;
            }
        }
        for heap in &self.idle_heaps {
            heap.spans.validate(heap.bytes)?;
            rule(heap.object_count == 0 && heap.idle_since.is_some(), "a heap in the cache is not empty", heap.bytes)?;
        }
        let free = self.objects.iter().filter(|object| object.is_none()).count();
        rule(free == self.free_objects.len(), "the list of free object numbers is incomplete", free as u64)?;
        for (number, object) in (0..).zip(&self.objects) {
            let Some(object) = object else { continue };
            let found = object.key.as_ref().map(|key| match object.heap {
                Some(heap) => self.heaps[heap as usize].as_ref().and_then(|heap| heap.cache.at(key, object.offset)),
                None => self.solo.at(key, u64::from(number)),
            });
            rule(
                found.is_none_or(|found| found == Some(number)),
                "an object with a key is not in its cache",
                number.into(),
            )?;
        }
        Ok(())
    }
}
