//! A frame during recording: the command lists of its submissions, in the order in which they run.
//!
//! ```text
//!   queue 1   copies ─┐             ┌─ aside ─┐
//!   queue 0           └─▶ early ────┤         └─▶ main ──▶ results are compared
//!                                   └─ (next) …
//! ```
//!
//! If the device has only one queue, the four lists are one submission.

use ringfence::device::Device;
use ringfence::{Frame, SyncPoint, Timeline};
use ringfence_testkit::{Command, Gpu};

use super::checks::Check;
use super::error::StreamError;

/// One of the four command lists of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum List {
    /// Copies of new objects, on the second queue.
    Copies,
    /// Work that the second queue's passes depend on.
    Early,
    /// Passes on the second queue.
    Aside,
    /// All other work.
    Main,
}

/// The lists of a frame that is being recorded, with their frames on the timelines and the comparisons to make.
pub struct Recording<D: Device> {
    /// Frames of the second queue for the lists `Copies` and `Aside`; `None` if there is no second queue.
    aside_frames: Option<(Frame, Frame)>,
    early_frame: Option<Frame>,
    pub main_frame: Frame,
    lists: [Vec<Command<D>>; 4],
    pub checks: Vec<Check<D>>,
    /// Readbacks that are recorded at the end, after the work that produces their content.
    pub later: Vec<(Command<D>, Check<D>)>,
}

impl<D: Device> Recording<D> {
    pub fn new(main: &Timeline<D>, aside: Option<&Timeline<D>>) -> Self {
        let aside_frames = aside.map(|timeline| (timeline.begin(), timeline.begin()));
        let early_frame = aside.map(|_| main.begin());
        let lists = [const { Vec::new() }; 4];
        let main_frame = main.begin();
        Self { aside_frames, early_frame, main_frame, lists, checks: Vec::new(), later: Vec::new() }
    }

    pub fn push(&mut self, list: List, command: Command<D>) {
        self.lists[list as usize].push(command);
    }

    /// Records the copy of a readback in a list, and adds its comparison.
    pub fn check(&mut self, list: List, (command, check): (Command<D>, Check<D>)) {
        self.push(list, command);
        self.checks.push(check);
    }

    /// Records the readbacks of [`Recording::later`] in the list `Main`.
    pub fn flush_later(&mut self) {
        for check in std::mem::take(&mut self.later) {
            self.check(List::Main, check);
        }
    }

    /// Returns the timeline's frame of the submission that contains a list.
    pub fn frame(&self, list: List) -> &Frame {
        let frame = match (list, &self.aside_frames) {
            (List::Copies, Some((copies, _))) => Some(copies),
            (List::Aside, Some((_, aside))) => Some(aside),
            (List::Early, _) => self.early_frame.as_ref(),
            _ => None,
        };
        frame.unwrap_or(&self.main_frame)
    }

    /// Returns the points at which all submissions of the frame are complete, one per queue.
    pub fn ends(&self) -> Vec<SyncPoint> {
        let aside = self.aside_frames.as_ref().map(|(_, aside)| aside.point());
        aside.into_iter().chain([self.main_frame.point()]).collect()
    }

    /// Submits the lists. Returns the timeline value of the last submission, and the comparisons to make once it is
    /// complete.
    pub fn submit<G: Gpu<Device = D>>(
        self,
        gpu: &mut G,
        main: &Timeline<D>,
        second: Option<&Timeline<D>>,
    ) -> Result<(u64, Vec<Check<D>>), StreamError> {
        let Self { aside_frames, early_frame, main_frame, lists, checks, .. } = self;
        let [copies, early, aside, rest] = lists;
        let value = main_frame.value();
        match (aside_frames, early_frame, second) {
            (Some((copy_frame, aside_frame)), Some(early_frame), Some(second)) => {
                let (copied, drawn, done) = (copy_frame.value(), early_frame.value(), aside_frame.value());
                gpu.submit(1, &[], &copies, copied)?;
                second.submitted(copy_frame)?;
                gpu.submit(0, &[(1, copied)], &early, drawn)?;
                main.submitted(early_frame)?;
                gpu.submit(1, &[(0, drawn)], &aside, done)?;
                second.submitted(aside_frame)?;
                gpu.submit(0, &[(1, done)], &rest, value)?;
            }
            _ => {
                let all: Vec<_> = [copies, early, aside, rest].into_iter().flatten().collect();
                gpu.submit(0, &[], &all, value)?;
            }
        }
        main.submitted(main_frame)?;
        Ok((value, checks))
    }
}
