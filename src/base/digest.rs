//! A digest that nobody can find a second text for: SHA-256 (FIPS 180-4).
//!
//! It is written out here because it is fifty lines, and what it guards (files that were looked at and trusted) is read
//! once at the start.

/// The first 32 bits of the fractional parts of the cube roots of the first 64 primes (FIPS 180-4, 4.2.2).
const ROUND_CONSTANTS: [u32; 64] = [
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98,
    0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
    0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8,
    0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
    0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819,
    0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
    0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
    0xc67178f2,
];

/// The same of the square roots of the first eight primes (5.3.3).
const START: [u32; 8] =
    [0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19];

/// The SHA-256 of the bytes, as 64 hexadecimal digits.
pub fn sha256(bytes: &[u8]) -> String {
    let mut state = START;
    padded(bytes).chunks_exact(64).for_each(|block| compress(&mut state, block));
    state.iter().map(|word| format!("{word:08x}")).collect()
}

/// The text, one bit, zeros, and its length in bits, in whole blocks.
fn padded(bytes: &[u8]) -> Vec<u8> {
    let mut padded = bytes.to_vec();
    padded.push(0x80);
    padded.resize((bytes.len() + 9).next_multiple_of(64) - 8, 0);
    padded.extend_from_slice(&(bytes.len() as u64 * 8).to_be_bytes());
    padded
}

fn compress(state: &mut [u32; 8], block: &[u8]) {
    let mut words = [0_u32; 64];
    for (word, bytes) in words.iter_mut().zip(block.chunks_exact(4)) {
        *word = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    }
    for t in 16..64 {
        let (near, far) = (words[t - 2], words[t - 15]);
        let near = near.rotate_right(17) ^ near.rotate_right(19) ^ (near >> 10);
        let far = far.rotate_right(7) ^ far.rotate_right(18) ^ (far >> 3);
        words[t] = near.wrapping_add(words[t - 7]).wrapping_add(far).wrapping_add(words[t - 16]);
    }
    let mut round = *state;
    for (constant, word) in ROUND_CONSTANTS.iter().zip(words) {
        turn(&mut round, constant.wrapping_add(word));
    }
    for (old, new) in state.iter_mut().zip(round) {
        *old = old.wrapping_add(new);
    }
}

fn turn(state: &mut [u32; 8], input: u32) {
    let [a, b, c, d, e, f, g, h] = *state;
    let sum = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
    let first = h.wrapping_add(sum).wrapping_add((e & f) ^ (!e & g)).wrapping_add(input);
    let sum = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
    let second = sum.wrapping_add((a & b) ^ (a & c) ^ (b & c));
    *state = [first.wrapping_add(second), a, b, c, d.wrapping_add(first), e, f, g];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_standard_come_out() {
        for (text, digest) in [
            ("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
            ("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
            (
                "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
                "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1",
            ),
        ] {
            assert_eq!(sha256(text.as_bytes()), digest, "{text}");
        }
        let million = sha256(&b"a".repeat(1_000_000));
        assert_eq!(million, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    }
}
