//! The guide, with its chapters as modules of the documentation; tests run their code. `guide` beside `src` is a symbolic
//! link to the folder `docs/guide` of the repository, so that the package contains the chapters.

/// Address of the repository.
macro_rules! repository {
    () => {
        "https://github.com/ringfence-rs/ringfence"
    };
}

/// Defines a module for each chapter. A page uses the first definition of a link: here it leads to a module, in the
/// repository to a file.
macro_rules! chapters {
    ($($(#[$when:meta])* $name:ident = $file:literal),* $(,)?) => {
        chapters!([concat!(
            $("[", $file, ".md]: crate::guide::", stringify!($name), "\n",)*
            "[commit]: crate::guide::uploading_each_frame#when-a-renderer-may-commit-its-own-state\n",
            "[defragmentation figures]: ", repository!(), "/blob/main/docs/performance.md#defragmentation\n",
            "[viewer]: ", repository!(), "/tree/main/examples/viewer\n",
            "[cookbook files]: ", repository!(), "/tree/main/docs/guide/cookbook\n",
            "[drop-in]: ", repository!(), "/tree/main/compat/gpu-allocator\n",
            "[performance]: ", repository!(), "/blob/main/docs/performance.md\n",
            "[reliability]: ", repository!(), "/blob/main/docs/reliability.md\n",
            "[frames.rs]: ", repository!(), "/blob/main/examples/first_hour/src/frames.rs\n",
            "[heap.rs]: ", repository!(), "/blob/main/examples/first_hour/src/heap.rs\n",
            "[lit.wgsl]: ", repository!(), "/blob/main/examples/first_hour/src/shaders/lit.wgsl\n",
            "[mesh.rs]: ", repository!(), "/blob/main/examples/first_hour/src/mesh.rs\n",
            "[pass.rs]: ", repository!(), "/blob/main/examples/first_hour/src/pass.rs\n",
            "[picture.rs]: ", repository!(), "/blob/main/examples/first_hour/src/picture.rs\n",
            "[pipeline.rs]: ", repository!(), "/blob/main/examples/first_hour/src/pipeline.rs\n",
            "[scene.rs]: ", repository!(), "/blob/main/examples/first_hour/src/scene.rs\n",
            "[shapes.rs]: ", repository!(), "/blob/main/examples/first_hour/src/shapes.rs\n",
            "[solid.wgsl]: ", repository!(), "/blob/main/examples/first_hour/src/shaders/solid.wgsl\n",
            "[step_2_buffer.rs]: ", repository!(), "/blob/main/examples/first_hour/src/bin/step_2_buffer.rs\n",
            "[step_3_clear.rs]: ", repository!(), "/blob/main/examples/first_hour/src/bin/step_3_clear.rs\n",
            "[step_4_triangle.rs]: ", repository!(), "/blob/main/examples/first_hour/src/bin/step_4_triangle.rs\n",
            "[step_5_solid.rs]: ", repository!(), "/blob/main/examples/first_hour/src/bin/step_5_solid.rs\n",
            "[step_6_texture.rs]: ", repository!(), "/blob/main/examples/first_hour/src/bin/step_6_texture.rs\n",
            "[step_7_frames.rs]: ", repository!(), "/blob/main/examples/first_hour/src/bin/step_7_frames.rs\n",
            "[step_8_inspect.rs]: ", repository!(), "/blob/main/examples/first_hour/src/bin/step_8_inspect.rs\n",
            "[triangle.wgsl]: ", repository!(), "/blob/main/examples/first_hour/src/shaders/triangle.wgsl\n",
            "[frames.svg]: ", repository!(), "/raw/main/docs/guide/pictures/frames.svg\n",
            "[paging.svg]: ", repository!(), "/raw/main/docs/guide/pictures/paging.svg\n",
            "[first_hour]: ", repository!(), "/tree/main/examples/first_hour\n",
            "[step_3.png]: ", repository!(), "/raw/main/docs/guide/first-hour/step_3.png\n",
            "[step_4.png]: ", repository!(), "/raw/main/docs/guide/first-hour/step_4.png\n",
            "[step_5.png]: ", repository!(), "/raw/main/docs/guide/first-hour/step_5.png\n",
            "[step_6.png]: ", repository!(), "/raw/main/docs/guide/first-hour/step_6.png\n",
            "[step_7.png]: ", repository!(), "/raw/main/docs/guide/first-hour/step_7.png\n",
        )] $($(#[$when])* $name = $file),*);
    };
    ([$links:expr] $($(#[$when:meta])* $name:ident = $file:literal),*) => {
        #[doc = $links]
        #[doc = "\n"]
        #[doc = include_str!("../guide/README.md")]
        pub mod guide {
            $(chapters!(@chapter $links, [$(#[$when])*] $name, $file);)*
        }
    };
    (@chapter $links:expr, [$(#[$when:meta])*] $name:ident, $file:literal) => {
        $(#[$when])*
        #[doc = $links]
        #[doc = "\n"]
        #[doc = include_str!(concat!("../guide/", $file, ".md"))]
        pub mod $name {}
    };
}

chapters! {
    // Its helper is compiled with the backend.
    #[cfg(any(not(doctest), feature = "vulkan"))]
    first_hour = "first-hour",
    // Its recipes use the backend, and one of them writes JSON.
    #[cfg(any(not(doctest), all(feature = "vulkan", feature = "serde")))]
    cookbook = "cookbook",
    choosing_where_memory_lives = "choosing-where-memory-lives",
    staying_within_budget = "staying-within-budget",
    uploading_each_frame = "uploading-each-frame",
    commands = "commands",
    constants = "constants",
    descriptors = "descriptors",
    aliasing_render_targets = "aliasing-render-targets",
    releasing_safely = "releasing-safely",
    inspecting_memory = "what-is-in-my-memory",
    debugging = "debugging",
    defragmentation = "defragmentation",
    residency = "residency",
    // Its code uses the feature.
    #[cfg(any(not(doctest), feature = "paging"))]
    when_it_does_not_fit = "when-it-does-not-fit",
    sharing = "sharing",
    sparse_resources = "sparse-resources",
    porting = "porting",
    bringing_your_own_device = "bringing-your-own-device",
    direct3d_12 = "direct3d-12",
    pitfalls = "pitfalls",
    platforms = "platforms",
    glossary = "glossary",
}
