//! Release of unused objects and heaps. Their age and number decide which ones are released. A released object is
//! destroyed once every submission that had begun at its release is complete.
//!
//! ```text
//!   object   in use ──discard──▶ unused ──surplus, and older than the latency──▶ released
//!                       ▲           │                                               │ every submission that had
//!                       └──acquire──┘                                               ▼ begun is complete
//!                                                                               destroyed
//!   heap     with objects ──last object released──▶ in the cache ──idle for long──▶ released ──▶ freed
//! ```

use ringfence_core::sync::SyncPoint;

use super::heap::{Heap, Object};
use super::state::State;
use crate::device::Device;
use ringfence_memory::extend::Place;
use ringfence_memory::trace::Event;

impl<D: Device> State<D> {
    /// Ends the execution. If `ends` is `None`, its passes were not submitted. In this case, bytes that were freed at
    /// the end of one of its passes may still be in use by a pass for which that pass should have waited.
    pub(super) fn end(&mut self, ends: Option<&[SyncPoint]>) {
        self.is_open = false;
        let all = self.order.end_of_all();
        let mut left_in_use = 0;
        for index in 0..self.acquired.len() {
            let number = self.acquired[index];
            let is_in_use = self.object(number).tenancy.is_some();
            left_in_use += usize::from(is_in_use);
            if is_in_use || ends.is_none() {
                self.vacate(number, all);
                self.object(number).is_forgotten |= ends.is_none();
            }
        }
        if ends.is_none() {
            self.order.forget_waits();
            self.barriers.forget();
        }
        self.order.close(ends.unwrap_or_default());
        let released = self.release_unused();
        if released > 0 {
            self.tidy();
        }
        self.cache_empty_heaps();
        self.figures.left_in_use = left_in_use;
    }

    /// For each heap, releases unused buffers and unused textures beyond `objects_kept`, oldest first, if they were not
    /// used for more than `latency_frames` frames. Also releases unused objects without a key. Returns the number of
    /// released objects.
    fn release_unused(&mut self) -> usize {
        let mut scratch = std::mem::take(&mut self.scratch);
        let before = self.figures.released;
        // Objects with dedicated memory are treated as the objects of one more heap.
        let heaps = (0..self.heaps.len() as u32).map(Some).chain([None]);
        for (heap, is_texture) in heaps.flat_map(|heap| [(heap, false), (heap, true)]) {
            scratch.clear();
            let group = |object: &Object<D>| object.heap == heap && object.is_texture == is_texture;
            let unused = (0..).zip(&self.objects).filter_map(|(number, object)| {
                let object = object.as_ref().filter(|object| group(object))?;
                (object.last_execution < self.execution).then_some((object.last_execution, number))
            });
            scratch.extend(unused);
            // Objects that no acquire can find again are released immediately, whatever their number and age.
            scratch.retain(|&(_, number)| {
                let found_again = self.objects[number as usize].as_ref().is_some_and(|object| object.key.is_some());
                if !found_again {
                    self.release(number);
                }
                found_again
            });
            let surplus = scratch.len().saturating_sub(self.desc.objects_kept);
            if surplus > 0 {
                scratch.sort_unstable();
            }
            for &(_, number) in &scratch[..surplus] {
                let age = self.frame - self.object(number).last_frame;
                if age <= self.desc.latency_frames {
                    break;
                }
                self.release(number);
            }
        }
        self.scratch = scratch;
        (self.figures.released - before) as usize
    }

    /// Releases an object. It is destroyed once every submission that has begun by now is complete.
    fn release(&mut self, number: u32) {
        let object = self.objects[number as usize].take().expect("the number belongs to an object");
        self.free_objects.push(number);
        self.generations[number as usize] = self.generations[number as usize].wrapping_add(1);
        self.figures.released += 1;
        match (object.heap, &object.key) {
            (Some(heap), key) => {
                self.shared.record(|| Event::TransientReleased { object: object.traced });
                let heap = self.heap(heap);
                heap.object_count -= 1;
                heap.last_plan = None;
                if let Some(key) = key {
                    heap.cache.remove(key, number);
                }
            }
            (None, Some(key)) => self.solo.remove(key, number),
            (None, None) => {}
        }
        // SAFETY: this allocator created the object at this place, is its only owner, and gives up the ownership here.
        unsafe { self.shared.retire(Some(object.raw), object.place) };
    }

    /// Removes released objects from the spans.
    fn tidy(&mut self) {
        let completed = self.order.completed();
        let Self { heaps, objects, .. } = self;
        for (number, heap) in (0..).zip(heaps) {
            let Some(heap) = heap else { continue };
            let is_gone = |number| objects[number as usize].is_none();
            for bytes in heap.spans.tidy(is_gone, &completed) {
                let in_heap = objects.iter_mut().flatten().filter(|object| object.heap == Some(number));
                let meets =
                    |object: &&mut Object<D>| object.offset < bytes.end && bytes.start < object.offset + object.size;
                in_heap.filter(meets).for_each(|object| object.is_forgotten = true);
            }
        }
    }

    /// Ends an execution that was suspended or leaked (`mem::forget`), as if it had been dropped.
    pub(super) fn end_forgotten(&mut self) {
        if self.is_open {
            self.end(None);
        }
    }

    /// Moves heaps without objects to the cache.
    fn cache_empty_heaps(&mut self) {
        for number in 0..self.heaps.len() {
            if let Some(heap) = self.heaps[number].take_if(|heap| heap.object_count == 0) {
                self.idle_heaps.push(Heap { idle_since: Some(self.frame), ..heap });
                self.figures.heaps_cached += 1;
            }
        }
    }

    /// Ends a frame. Releases the heaps that were idle for too long, and returns their number.
    pub(super) fn end_frame(&mut self) -> usize {
        self.frame += 1;
        let (frame, idle_frames) = (self.frame, self.desc.heap_idle_frames);
        let is_due = |heap: &mut Heap<D>| heap.idle_since.is_some_and(|since| frame - since > idle_frames);
        let mut count = 0;
        while let Some(at) = self.idle_heaps.iter_mut().position(is_due) {
            let heap = self.idle_heaps.remove(at);
            self.release_heap(heap);
            count += 1;
        }
        count
    }

    /// Releases an empty heap. It is freed once every submission that has begun by now is complete.
    fn release_heap(&self, heap: Heap<D>) {
        // SAFETY: the heap belongs to this allocator, and all objects in it were retired before.
        unsafe { self.shared.retire(None, Place::share_of(heap.whole)) };
    }

    /// Retires all objects and heaps, whatever their number and age. Returns the number of objects.
    pub(super) fn trim(&mut self) -> usize {
        self.end_forgotten();
        let before = self.figures.released;
        for number in 0..self.objects.len() as u32 {
            if self.objects[number as usize].is_some() {
                self.release(number);
            }
        }
        self.execution += 1; // all handles are stale from now on
        self.plans.forget_frame();
        self.barriers.begin();
        self.tidy();
        self.cache_empty_heaps();
        while let Some(heap) = self.idle_heaps.pop() {
            self.release_heap(heap);
        }
        (self.figures.released - before) as usize
    }
}
