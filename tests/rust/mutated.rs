//! Seeds of the fuzz targets under a plain mutator, for unit tests; `make fuzz-smoke` runs the same bodies with
//! coverage. The random numbers are the same in each run.

use std::{fs, path::Path};

/// Inputs of each target. An unoptimized build needs a second for most.
const RUNS: usize = 2000;

/// Longest input: one batch.
const LONGEST: usize = 65_535;

/// Runs a body on the seeds of its target, and on mutated ones.
#[allow(clippy::disallowed_methods, reason = "crates without files have tests that read their seeds")]
pub(crate) fn fuzz(target: &str, body: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/seeds").join(target);
    let mut files: Vec<_> =
        fs::read_dir(folder).expect("a folder of seeds").map(|e| e.expect("its entry").path()).collect();
    files.sort();
    let seeds: Vec<Vec<u8>> = files.iter().map(|file| fs::read(file).expect("a seed")).collect();
    assert!(!seeds.is_empty(), "no seeds of {target}");
    seeds.iter().for_each(|seed| body(seed));
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for _ in 0..RUNS {
        let mut input = seeds[random.below(seeds.len())].clone();
        mutate(&mut input, &seeds, &mut random);
        body(&input);
    }
}

/// xorshift64*: small, and the same everywhere.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A random number below `bound`, which is not zero.
    fn below(&mut self, bound: usize) -> usize {
        (self.next() >> 16) as usize % bound
    }
}

/// Byte values at which decoders branch.
const TELLING: &[u8] = &[0x00, 0x01, 0x02, 0x07, 0x0f, 0x10, 0x1a, 0x1d, 0x21, 0x41, 0x7f, 0x80, 0x81, 0xff];

fn mutate(input: &mut Vec<u8>, seeds: &[Vec<u8>], random: &mut Random) {
    for _ in 0..=random.below(4) {
        let at = random.below(input.len() + 1);
        let byte = match random.below(2) {
            0 => TELLING[random.below(TELLING.len())],
            _ => random.next() as u8,
        };
        match random.below(7) {
            0 => input.insert(at, byte),
            1 if at < input.len() => drop(input.remove(at)),
            2 if at < input.len() => input[at] = byte,
            3 if at < input.len() => input[at] ^= 1 << (byte % 8),
            4 => input.truncate(at),
            // A length that exceeds the data.
            5 => {
                let claim = [0xff; 9];
                let len = 1 + random.below(9);
                input.splice(at..at, claim[..len].iter().copied());
            }
            // The end of another seed.
            6 => {
                let other = &seeds[random.below(seeds.len())];
                input.truncate(at);
                input.extend_from_slice(&other[random.below(other.len() + 1)..]);
            }
            _ => {}
        }
    }
    input.truncate(LONGEST);
}
