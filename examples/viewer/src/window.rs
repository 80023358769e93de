//! A window instead of a picture: winit for the window, a swapchain to which each picture is copied.

use std::time::Duration;

use ash::{khr, vk};
use raw_window_handle::{HasDisplayHandle, HasWindowHandle};
use winit::application::ApplicationHandler;
use winit::event::WindowEvent;
use winit::event_loop::{ActiveEventLoop, EventLoop};
use winit::window::{Window, WindowId};

use crate::Failure;
use crate::args::Args;
use crate::gpu::{Gpu, Wanted};
use crate::recorder::Shown;
use crate::renderer::{Also, Renderer};
use crate::scene::Scene;

/// Shows the scene until the window is closed, or for the frames of `args` if they were given. Returns the number of
/// messages of the validation layer.
pub fn run(scene: Scene, args: Args) -> Result<u32, Failure> {
    let events = EventLoop::new()?;
    let mut app = App { scene, args, number: 0, open: None, result: Ok(0) };
    events.run_app(&mut app)?;
    app.result
}

struct App {
    scene: Scene,
    args: Args,
    number: u32,
    open: Option<Open>,
    result: Result<u32, Failure>,
}

/// The window and the objects that draw into it.
struct Open {
    window: Window,
    gpu: Gpu,
    renderer: Renderer,
    surface: (khr::surface::Instance, vk::SurfaceKHR),
    chain: Chain,
}

/// A swapchain. Each image has a semaphore that is signalled when it is drawn.
struct Chain {
    functions: khr::swapchain::Device,
    raw: vk::SwapchainKHR,
    images: Vec<vk::Image>,
    acquired: [vk::Semaphore; 4],
    drawn: Vec<vk::Semaphore>,
    size: [u32; 2],
}

impl ApplicationHandler for App {
    fn resumed(&mut self, events: &ActiveEventLoop) {
        match Open::new(events, &self.args) {
            Ok(open) => self.open = Some(open),
            Err(error) => self.stop(events, Err(error)),
        }
    }

    fn window_event(&mut self, events: &ActiveEventLoop, _: WindowId, event: WindowEvent) {
        let Some(open) = &mut self.open else { return };
        match event {
            WindowEvent::CloseRequested => self.close(events),
            WindowEvent::RedrawRequested => match open.draw(&self.scene, self.number) {
                Ok(()) => {
                    open.window.request_redraw();
                    self.number += 1;
                    if self.number == self.args.frames {
                        self.close(events);
                    }
                }
                Err(error) => self.stop(events, Err(error)),
            },
            _ => {}
        }
    }
}

impl App {
    fn close(&mut self, events: &ActiveEventLoop) {
        let result = self.open.take().map_or(Ok(0), Open::finish);
        self.stop(events, result);
    }

    fn stop(&mut self, events: &ActiveEventLoop, result: Result<u32, Failure>) {
        self.result = result;
        events.exit();
    }
}

impl Open {
    fn new(events: &ActiveEventLoop, args: &Args) -> Result<Self, Failure> {
        let size = winit::dpi::PhysicalSize::new(args.size[0], args.size[1]);
        let window = events.create_window(Window::default_attributes().with_title("Viewer").with_inner_size(size))?;
        let (display, handle) = (events.display_handle()?.as_raw(), window.window_handle()?.as_raw());
        let surface = ash_window::enumerate_required_extensions(display)?;
        let gpu = Gpu::new(Wanted { name: args.device.as_deref(), validate: args.validate, surface })?;
        let (entry, instance, _) = gpu.parts();
        // SAFETY: the instance has the extensions of the window, which outlives the surface.
        let raw = unsafe { ash_window::create_surface(entry, instance, display, handle, None) }?;
        let surface = (khr::surface::Instance::new(entry, instance), raw);
        let size = [window.inner_size().width.max(16), window.inner_size().height.max(16)];
        let chain = Chain::new(&gpu, &surface, size)?;
        let renderer = Renderer::new(&gpu, chain.size, args.budget)?;
        window.request_redraw();
        Ok(Self { window, gpu, renderer, surface, chain })
    }

    fn draw(&mut self, scene: &Scene, number: u32) -> Result<(), Failure> {
        let inner = self.window.inner_size();
        let wait = self.chain.acquired[number as usize % 4];
        // SAFETY: the submission that waited for the semaphore, four frames ago, is complete: the frame after it has waited.
        let acquired =
            unsafe { self.chain.functions.acquire_next_image(self.chain.raw, u64::MAX, wait, vk::Fence::null()) };
        let (index, is_old) = match acquired {
            Ok(acquired) => acquired,
            Err(vk::Result::ERROR_OUT_OF_DATE_KHR) => return self.resize([inner.width, inner.height]),
            Err(error) => return Err(error.into()),
        };
        let signal = self.chain.drawn[index as usize];
        let shown = Shown { image: self.chain.images[index as usize], size: self.chain.size, wait, signal };
        self.renderer.frame(&self.gpu, scene, number, Also { read: false, show: Some(shown) })?;
        let (chains, indices, waits) = ([self.chain.raw], [index], [signal]);
        let info = vk::PresentInfoKHR::default().swapchains(&chains).image_indices(&indices).wait_semaphores(&waits);
        // SAFETY: the image was acquired, and is in the layout for presentation.
        let presented = unsafe { self.chain.functions.queue_present(self.gpu.queue, &info) };
        match presented {
            Ok(false) if !is_old && [inner.width, inner.height] == self.chain.size => Ok(()),
            Ok(_) | Err(vk::Result::ERROR_OUT_OF_DATE_KHR) => self.resize([inner.width, inner.height]),
            Err(error) => Err(error.into()),
        }
    }

    fn resize(&mut self, size: [u32; 2]) -> Result<(), Failure> {
        if size.iter().any(|side| *side < 16) {
            return Ok(()); // minimised
        }
        self.chain.destroy(&self.gpu)?;
        self.chain = Chain::new(&self.gpu, &self.surface, size)?;
        self.renderer.resize(&self.gpu, self.chain.size)
    }

    fn finish(self) -> Result<u32, Failure> {
        self.chain.destroy(&self.gpu)?;
        self.renderer.destroy(&self.gpu);
        // SAFETY: the swapchain is destroyed.
        unsafe { self.surface.0.destroy_surface(self.surface.1, None) };
        self.gpu.finish()
    }
}

impl Chain {
    fn new(
        gpu: &Gpu,
        (surfaces, surface): &(khr::surface::Instance, vk::SurfaceKHR),
        size: [u32; 2],
    ) -> Result<Self, Failure> {
        let (_, instance, physical) = gpu.parts();
        // SAFETY: the surface is alive and belongs to the instance.
        let (can, formats) = unsafe {
            if !surfaces.get_physical_device_surface_support(physical, 0, *surface)? {
                return Err("the first queue of this device cannot present to the window".into());
            }
            let can = surfaces.get_physical_device_surface_capabilities(physical, *surface)?;
            (can, surfaces.get_physical_device_surface_formats(physical, *surface)?)
        };
        let is_plain = |held: &&vk::SurfaceFormatKHR| held.format == vk::Format::B8G8R8A8_UNORM;
        let format = formats.iter().find(is_plain).or(formats.first()).ok_or("the window has no format")?;
        let extent = match can.current_extent.width {
            u32::MAX => vk::Extent2D { width: size[0], height: size[1] },
            _ => can.current_extent,
        };
        let info = vk::SwapchainCreateInfoKHR::default()
            .surface(*surface)
            .min_image_count(can.min_image_count.max(3))
            .image_format(format.format)
            .image_color_space(format.color_space)
            .image_extent(extent)
            .image_array_layers(1)
            .image_usage(vk::ImageUsageFlags::TRANSFER_DST)
            .pre_transform(can.current_transform)
            .composite_alpha(vk::CompositeAlphaFlagsKHR::OPAQUE)
            .present_mode(vk::PresentModeKHR::FIFO)
            .clipped(true);
        let functions = khr::swapchain::Device::new(instance, gpu.raw());
        let semaphore = || {
            // SAFETY: the device is alive.
            unsafe { gpu.raw().create_semaphore(&vk::SemaphoreCreateInfo::default(), None) }
        };
        // SAFETY: the surface supports all of this.
        let raw = unsafe { functions.create_swapchain(&info, None) }?;
        // SAFETY: the swapchain is alive.
        let images = unsafe { functions.get_swapchain_images(raw) }?;
        let drawn = images.iter().map(|_| semaphore()).collect::<Result<_, _>>()?;
        let acquired = [semaphore()?, semaphore()?, semaphore()?, semaphore()?];
        Ok(Self { functions, raw, images, acquired, drawn, size: [extent.width, extent.height] })
    }

    /// Waits for all work, and destroys the swapchain.
    fn destroy(&self, gpu: &Gpu) -> Result<(), Failure> {
        gpu.timeline.wait(gpu.timeline.submitted_value(), Duration::from_secs(60))?;
        // SAFETY: the queue is idle, so nothing uses the swapchain or its semaphores.
        unsafe {
            gpu.raw().queue_wait_idle(gpu.queue)?;
            self.functions.destroy_swapchain(self.raw, None);
            for semaphore in self.acquired.iter().chain(&self.drawn) {
                gpu.raw().destroy_semaphore(*semaphore, None);
            }
        }
        Ok(())
    }
}
