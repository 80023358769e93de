//! The chapters of the guide. Their code is compiled and run as tests. `guide` is a symbolic link to the folder
//! `docs/guide` of the repository, so that the package contains the chapters.

macro_rules! chapters {
    ($($name:ident = $file:literal),* $(,)?) => {
        $(#[doc = include_str!(concat!("../guide/", $file, ".md"))]
        struct $name;)*
    };
}

chapters! {
    ChoosingWhereMemoryLives = "choosing-where-memory-lives",
    StayingWithinBudget = "staying-within-budget",
    UploadingEachFrame = "uploading-each-frame",
    Commands = "commands",
    Constants = "constants",
    Descriptors = "descriptors",
    AliasingRenderTargets = "aliasing-render-targets",
    ReleasingSafely = "releasing-safely",
    WhatIsInMyMemory = "what-is-in-my-memory",
    Porting = "porting",
    BringingYourOwnDevice = "bringing-your-own-device",
    Direct3D12 = "direct3d-12",
    Defragmentation = "defragmentation",
    Residency = "residency",
    Debugging = "debugging",
    Sharing = "sharing",
    SparseResources = "sparse-resources",
}
