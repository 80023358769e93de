//! A compute shader that reads one texel through a view, assembled as SPIR-V.
//!
//! WGSL has neither one-dimensional arrays nor texel buffers, so naga cannot compile these shaders. The validation
//! layers check the SPIR-V.
//!
//! ```text
//!   words[0..4]     coordinates that the shader passes: integers, or floats for a sampled cube
//!   words[4]        mip level (a float for a sampled cube), or the number of the sample
//!   words[8..12]    texel to write, for storage views
//!   words[12..16]   texel that the shader has read
//! ```

use std::collections::HashMap;

use super::texel::Numbers;

/// Number of slots of the heaps.
pub const SLOTS: u32 = 2;
/// Slot of the storage buffer with the words, and of the sampler.
pub const FIRST_SLOT: u32 = 0;
/// Slot of the view.
pub const VIEW_SLOT: u32 = 1;
/// Number of words.
pub const WORDS: u32 = 16;
/// Word of the mip level or sample.
pub const LEVEL: u32 = 4;
/// First word of the texel to write, and of the texel that was read.
pub const WRITTEN: u32 = 8;
pub const FOUND: u32 = 12;

/// `Dim` of an image in SPIR-V.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Dim {
    D1 = 0,
    D2 = 1,
    D3 = 2,
    Cube = 3,
    Buffer = 5,
}

/// Declaration of the array of views, and the access to it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Declaration {
    /// Sampled images, or uniform texel buffers. Cubes are sampled, all others are fetched.
    Sampled { dim: Dim, arrayed: bool, multisampled: bool },
    /// Storage images, or storage texel buffers, of this format of SPIR-V (0 for no format).
    Storage { dim: Dim, arrayed: bool, format: u32 },
    /// Uniform buffers of four vectors of 16 bytes.
    Constants,
    /// Storage buffers of vectors of 16 bytes.
    Structures,
}

/// A shader.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Shader {
    pub declaration: Declaration,
    /// Numbers of the texels: the type of image, and of the results.
    pub numbers: Numbers,
    /// Binding of the views in set 0.
    pub binding: u32,
    /// Binding of the storage buffer with the words in set 0.
    pub words_binding: u32,
}

/// Opcodes.
mod op {
    pub const MEMORY_MODEL: u32 = 14;
    pub const ENTRY_POINT: u32 = 15;
    pub const EXECUTION_MODE: u32 = 16;
    pub const CAPABILITY: u32 = 17;
    pub const TYPE_VOID: u32 = 19;
    pub const TYPE_INT: u32 = 21;
    pub const TYPE_FLOAT: u32 = 22;
    pub const TYPE_VECTOR: u32 = 23;
    pub const TYPE_IMAGE: u32 = 25;
    pub const TYPE_SAMPLER: u32 = 26;
    pub const TYPE_SAMPLED_IMAGE: u32 = 27;
    pub const TYPE_ARRAY: u32 = 28;
    pub const TYPE_RUNTIME_ARRAY: u32 = 29;
    pub const TYPE_STRUCT: u32 = 30;
    pub const TYPE_POINTER: u32 = 32;
    pub const TYPE_FUNCTION: u32 = 33;
    pub const CONSTANT: u32 = 43;
    pub const FUNCTION: u32 = 54;
    pub const FUNCTION_END: u32 = 56;
    pub const VARIABLE: u32 = 59;
    pub const LOAD: u32 = 61;
    pub const STORE: u32 = 62;
    pub const ACCESS_CHAIN: u32 = 65;
    pub const DECORATE: u32 = 71;
    pub const MEMBER_DECORATE: u32 = 72;
    pub const COMPOSITE_CONSTRUCT: u32 = 80;
    pub const COMPOSITE_EXTRACT: u32 = 81;
    pub const SAMPLED_IMAGE: u32 = 86;
    pub const IMAGE_SAMPLE_EXPLICIT_LOD: u32 = 88;
    pub const IMAGE_FETCH: u32 = 95;
    pub const IMAGE_READ: u32 = 98;
    pub const IMAGE_WRITE: u32 = 99;
    pub const BITCAST: u32 = 124;
    pub const LABEL: u32 = 248;
    pub const RETURN: u32 = 253;
}

/// Capabilities.
mod capability {
    pub const SHADER: u32 = 1;
    pub const SAMPLED_1D: u32 = 43;
    pub const IMAGE_1D: u32 = 44;
    pub const SAMPLED_CUBE_ARRAY: u32 = 45;
    pub const SAMPLED_BUFFER: u32 = 46;
    pub const IMAGE_BUFFER: u32 = 47;
    pub const STORAGE_IMAGE_EXTENDED_FORMATS: u32 = 49;
    pub const STORAGE_IMAGE_READ_WITHOUT_FORMAT: u32 = 55;
    pub const STORAGE_IMAGE_WRITE_WITHOUT_FORMAT: u32 = 56;
}

/// Decorations.
mod decoration {
    pub const BLOCK: u32 = 2;
    pub const ARRAY_STRIDE: u32 = 6;
    pub const BINDING: u32 = 33;
    pub const DESCRIPTOR_SET: u32 = 34;
    pub const OFFSET: u32 = 35;
}

/// Storage classes.
mod class {
    pub const UNIFORM_CONSTANT: u32 = 0;
    pub const UNIFORM: u32 = 2;
    pub const STORAGE_BUFFER: u32 = 12;
}

/// Formats of SPIR-V that need no capability besides `Shader`.
pub const PLAIN_FORMATS: [u32; 13] = [1, 2, 3, 4, 5, 21, 22, 23, 24, 30, 31, 32, 33];

/// Image operands: a mip level, or a sample.
const LOD: u32 = 2;
const SAMPLE: u32 = 0x40;

/// The sections of a module, in words.
#[derive(Default)]
struct Module {
    ids: u32,
    capabilities: Vec<u32>,
    decorations: Vec<u32>,
    globals: Vec<u32>,
    body: Vec<u32>,
    /// Types and constants, by opcode and operands. SPIR-V forbids to declare a type without members twice.
    known: HashMap<(u32, Vec<u32>), u32>,
}

fn instruction(into: &mut Vec<u32>, opcode: u32, operands: &[u32]) {
    into.push((operands.len() as u32 + 1) << 16 | opcode);
    into.extend(operands);
}

impl Module {
    fn id(&mut self) -> u32 {
        self.ids += 1;
        self.ids
    }

    fn needs(&mut self, capability: u32) {
        instruction(&mut self.capabilities, op::CAPABILITY, &[capability]);
    }

    fn decorate(&mut self, target: u32, decoration: &[u32]) {
        instruction(&mut self.decorations, op::DECORATE, &[&[target], decoration].concat());
    }

    /// Declares a type. Its number is the first operand.
    fn new_type(&mut self, opcode: u32, operands: &[u32]) -> u32 {
        let id = self.id();
        instruction(&mut self.globals, opcode, &[&[id], operands].concat());
        id
    }

    /// Returns the type with these operands. Declares it at its first use.
    fn type_of(&mut self, opcode: u32, operands: &[u32]) -> u32 {
        if let Some(known) = self.known.get(&(opcode, operands.to_vec())) {
            return *known;
        }
        let id = self.new_type(opcode, operands);
        self.known.insert((opcode, operands.to_vec()), id);
        id
    }

    fn uint(&mut self) -> u32 {
        self.type_of(op::TYPE_INT, &[32, 0])
    }

    fn sint(&mut self) -> u32 {
        self.type_of(op::TYPE_INT, &[32, 1])
    }

    fn float(&mut self) -> u32 {
        self.type_of(op::TYPE_FLOAT, &[32])
    }

    /// Returns the type of the numbers that shaders read from texels.
    fn scalar(&mut self, numbers: Numbers) -> u32 {
        match numbers {
            Numbers::Uint => self.uint(),
            Numbers::Sint => self.sint(),
            _ => self.float(),
        }
    }

    fn pointer(&mut self, class: u32, to: u32) -> u32 {
        self.type_of(op::TYPE_POINTER, &[class, to])
    }

    fn constant(&mut self, value: u32) -> u32 {
        let uint = self.uint();
        if let Some(known) = self.known.get(&(op::CONSTANT, vec![value])) {
            return *known;
        }
        let id = self.id();
        instruction(&mut self.globals, op::CONSTANT, &[uint, id, value]);
        self.known.insert((op::CONSTANT, vec![value]), id);
        id
    }

    /// Declares an array of `SLOTS` descriptors of a type, in a set and at a binding. Returns the variable.
    fn descriptors(&mut self, class: u32, of: u32, [set, binding]: [u32; 2]) -> u32 {
        let slots = self.constant(SLOTS);
        let array = self.new_type(op::TYPE_ARRAY, &[of, slots]);
        let pointer = self.pointer(class, array);
        let id = self.id();
        instruction(&mut self.globals, op::VARIABLE, &[pointer, id, class]);
        self.decorate(id, &[decoration::DESCRIPTOR_SET, set]);
        self.decorate(id, &[decoration::BINDING, binding]);
        id
    }

    /// Declares a structure with one member: an array of `element`, with `count` elements or without a limit.
    fn block(&mut self, element: u32, stride: u32, count: Option<u32>) -> u32 {
        let array = match count {
            Some(count) => {
                let count = self.constant(count);
                self.new_type(op::TYPE_ARRAY, &[element, count])
            }
            None => self.new_type(op::TYPE_RUNTIME_ARRAY, &[element]),
        };
        self.decorate(array, &[decoration::ARRAY_STRIDE, stride]);
        let block = self.new_type(op::TYPE_STRUCT, &[array]);
        self.decorate(block, &[decoration::BLOCK]);
        instruction(&mut self.decorations, op::MEMBER_DECORATE, &[block, 0, decoration::OFFSET, 0]);
        block
    }

    /// Adds an instruction with a result to the function. Returns the result.
    fn value(&mut self, opcode: u32, of: u32, operands: &[u32]) -> u32 {
        let id = self.id();
        instruction(&mut self.body, opcode, &[&[of, id], operands].concat());
        id
    }

    /// Loads a value through a variable.
    fn load(&mut self, class: u32, of: u32, variable: u32, path: &[u32]) -> u32 {
        let pointer = self.pointer(class, of);
        let at = self.value(op::ACCESS_CHAIN, pointer, &[&[variable], path].concat());
        self.value(op::LOAD, of, &[at])
    }

    fn path_of_word(&mut self, index: u32) -> [u32; 3] {
        [FIRST_SLOT, 0, index].map(|index| self.constant(index))
    }

    /// Loads a word as a value of a scalar type.
    fn word(&mut self, words: u32, index: u32, of: u32) -> u32 {
        let (uint, path) = (self.uint(), self.path_of_word(index));
        let word = self.load(class::STORAGE_BUFFER, uint, words, &path);
        if of == uint { word } else { self.value(op::BITCAST, of, &[word]) }
    }

    /// Loads consecutive words as a vector, or as a scalar if there is one.
    fn vector(&mut self, words: u32, first: u32, count: u32, of: u32) -> u32 {
        let parts: Vec<_> = (first..first + count).map(|index| self.word(words, index, of)).collect();
        if count == 1 {
            return parts[0];
        }
        let vector = self.type_of(op::TYPE_VECTOR, &[of, count]);
        self.value(op::COMPOSITE_CONSTRUCT, vector, &parts)
    }
}

impl Shader {
    /// Returns the SPIR-V of the shader. Its entry point is `run`.
    pub fn assemble(&self) -> Vec<u32> {
        let mut module = Module::default();
        module.needs(capability::SHADER);
        let [main, label] = [(); 2].map(|()| module.id());
        let void = module.type_of(op::TYPE_VOID, &[]);
        let function = module.type_of(op::TYPE_FUNCTION, &[void]);
        let uint = module.uint();
        let block = module.block(uint, 4, None);
        let words = module.descriptors(class::STORAGE_BUFFER, block, [0, self.words_binding]);
        let found = self.read(&mut module, words);
        let scalar = module.scalar(self.numbers);
        for index in 0..4 {
            let part = module.value(op::COMPOSITE_EXTRACT, scalar, &[found, index]);
            let part = if scalar == uint { part } else { module.value(op::BITCAST, uint, &[part]) };
            let (path, pointer) = (module.path_of_word(FOUND + index), module.pointer(class::STORAGE_BUFFER, uint));
            let at = module.value(op::ACCESS_CHAIN, pointer, &[&[words], &path[..]].concat());
            instruction(&mut module.body, op::STORE, &[at, part]);
        }
        // Magic number, version 1.3, no generator, bound of the numbers, no schema.
        let mut code = vec![0x0723_0203, 0x0001_0300, 0, module.ids + 1, 0];
        code.extend(&module.capabilities);
        instruction(&mut code, op::MEMORY_MODEL, &[0, 1]);
        // Model `GLCompute`. In this version, the interface contains no descriptors.
        instruction(&mut code, op::ENTRY_POINT, &[5, main, u32::from_le_bytes(*b"run\0")]);
        // Mode `LocalSize`.
        instruction(&mut code, op::EXECUTION_MODE, &[main, 17, 1, 1, 1]);
        code.extend(module.decorations);
        code.extend(module.globals);
        instruction(&mut code, op::FUNCTION, &[void, main, 0, function]);
        instruction(&mut code, op::LABEL, &[label]);
        code.extend(module.body);
        instruction(&mut code, op::RETURN, &[]);
        instruction(&mut code, op::FUNCTION_END, &[]);
        code
    }

    /// Reads the texel, then writes the other one if the view is for storage. Returns the texel that was read.
    fn read(&self, module: &mut Module, words: u32) -> u32 {
        let scalar = module.scalar(self.numbers);
        let texel = module.type_of(op::TYPE_VECTOR, &[scalar, 4]);
        let (uint, sint, float) = (module.uint(), module.sint(), module.float());
        match self.declaration {
            Declaration::Constants | Declaration::Structures => {
                let (class, count) = match self.declaration {
                    Declaration::Constants => (class::UNIFORM, Some(4)),
                    _ => (class::STORAGE_BUFFER, None),
                };
                let block = module.block(texel, 16, count);
                let shown = module.descriptors(class, block, [0, self.binding]);
                let index = module.word(words, 0, uint);
                let path = [module.constant(VIEW_SLOT), module.constant(0), index];
                module.load(class, texel, shown, &path)
            }
            Declaration::Sampled { dim, arrayed, multisampled } => {
                match (dim, arrayed) {
                    (Dim::D1, _) => module.needs(capability::SAMPLED_1D),
                    (Dim::Buffer, _) => module.needs(capability::SAMPLED_BUFFER),
                    (Dim::Cube, true) => module.needs(capability::SAMPLED_CUBE_ARRAY),
                    _ => {}
                }
                let kind = [scalar, dim as u32, 0, arrayed.into(), multisampled.into(), 1, 0];
                let (kind, image) = self.image(module, &kind);
                let coordinates = coordinates(dim, arrayed);
                if dim == Dim::Cube {
                    let sampler = module.type_of(op::TYPE_SAMPLER, &[]);
                    let samplers = module.descriptors(class::UNIFORM_CONSTANT, sampler, [1, 0]);
                    let slot = module.constant(FIRST_SLOT);
                    let sampler = module.load(class::UNIFORM_CONSTANT, sampler, samplers, &[slot]);
                    let both = module.type_of(op::TYPE_SAMPLED_IMAGE, &[kind]);
                    let both = module.value(op::SAMPLED_IMAGE, both, &[image, sampler]);
                    let at = module.vector(words, 0, coordinates, float);
                    let lod = module.word(words, LEVEL, float);
                    return module.value(op::IMAGE_SAMPLE_EXPLICIT_LOD, texel, &[both, at, LOD, lod]);
                }
                let at = module.vector(words, 0, coordinates, sint);
                let level = module.word(words, LEVEL, sint);
                match (dim, multisampled) {
                    (Dim::Buffer, _) => module.value(op::IMAGE_FETCH, texel, &[image, at]),
                    (_, true) => module.value(op::IMAGE_FETCH, texel, &[image, at, SAMPLE, level]),
                    _ => module.value(op::IMAGE_FETCH, texel, &[image, at, LOD, level]),
                }
            }
            Declaration::Storage { dim, arrayed, format } => {
                match dim {
                    Dim::D1 => module.needs(capability::IMAGE_1D),
                    Dim::Buffer => module.needs(capability::IMAGE_BUFFER),
                    _ => {}
                }
                if format == 0 {
                    module.needs(capability::STORAGE_IMAGE_READ_WITHOUT_FORMAT);
                    module.needs(capability::STORAGE_IMAGE_WRITE_WITHOUT_FORMAT);
                } else if !PLAIN_FORMATS.contains(&format) {
                    module.needs(capability::STORAGE_IMAGE_EXTENDED_FORMATS);
                }
                let (_, image) = self.image(module, &[scalar, dim as u32, 0, arrayed.into(), 0, 2, format]);
                let at = module.vector(words, 0, coordinates(dim, arrayed), sint);
                let found = module.value(op::IMAGE_READ, texel, &[image, at]);
                let written = module.vector(words, WRITTEN, 4, scalar);
                instruction(&mut module.body, op::IMAGE_WRITE, &[image, at, written]);
                found
            }
        }
    }

    /// Declares the array of images and loads the image of the view. Returns its type and the image.
    fn image(&self, module: &mut Module, kind: &[u32]) -> (u32, u32) {
        let kind = module.type_of(op::TYPE_IMAGE, kind);
        let shown = module.descriptors(class::UNIFORM_CONSTANT, kind, [0, self.binding]);
        let slot = module.constant(VIEW_SLOT);
        (kind, module.load(class::UNIFORM_CONSTANT, kind, shown, &[slot]))
    }
}

/// Returns the number of coordinates of an image.
fn coordinates(dim: Dim, arrayed: bool) -> u32 {
    let of_dim = match dim {
        Dim::D1 | Dim::Buffer => 1,
        Dim::D2 => 2,
        Dim::D3 | Dim::Cube => 3,
    };
    of_dim + u32::from(arrayed)
}
