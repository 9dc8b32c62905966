"""Owns our commitments as Python calls them: tests/runtime/commitment/bridge.cpp through ctypes."""

import ctypes

import numpy


def bits_of(tensor):
    """The bf16 patterns of a torch tensor, flat."""
    import torch

    return numpy.ascontiguousarray(tensor.contiguous().view(torch.uint16).numpy().reshape(-1))


class Bridge:
    def __init__(self, path):
        self.library = ctypes.CDLL(str(path))
        self.library.bridge_interpolate.restype = ctypes.c_uint32

    @staticmethod
    def _pointer(array):
        return ctypes.c_void_p(array.ctypes.data)

    def build(self, bits, k):
        proof = numpy.empty(2 + 2 * k, dtype=numpy.uint8)
        if self.library.bridge_build(self._pointer(bits), ctypes.c_size_t(bits.size), ctypes.c_uint32(k), self._pointer(proof)):
            raise ValueError("no proof")
        return proof.tobytes()

    def compare(self, proof, bits, k):
        """Exponent mismatches, sign mismatches, mantissa mean and median; None for a malformed proof."""
        out = numpy.empty(4)
        data = numpy.frombuffer(proof, dtype=numpy.uint8)
        failed = self.library.bridge_compare(self._pointer(data), ctypes.c_size_t(data.size), self._pointer(bits), ctypes.c_size_t(bits.size),
                                             ctypes.c_uint32(k), self._pointer(out))
        return None if failed else out.tolist()

    def top(self, bits, k):
        indices = numpy.empty(k, dtype=numpy.uint32)
        self.library.bridge_top(self._pointer(bits), ctypes.c_size_t(bits.size), ctypes.c_uint32(k), self._pointer(indices))
        return indices

    def interpolate(self, indices, values):
        coefficients = numpy.empty(indices.size, dtype=numpy.uint16)
        modulus = self.library.bridge_interpolate(self._pointer(indices), self._pointer(values), ctypes.c_size_t(indices.size), self._pointer(coefficients))
        return modulus, coefficients

    def evaluate(self, coefficients, modulus, indices):
        out = numpy.empty(indices.size, dtype=numpy.uint16)
        self.library.bridge_evaluate(self._pointer(coefficients), ctypes.c_size_t(coefficients.size), ctypes.c_uint32(modulus), self._pointer(indices),
                                     ctypes.c_size_t(indices.size), self._pointer(out))
        return out
