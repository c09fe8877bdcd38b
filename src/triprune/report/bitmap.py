"""Owns small pictures inside a page: pixels to PNG to a data URI, with nothing but zlib."""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np

from triprune.report.contents import Map, Pixels

_HEAT = np.array(
    [[12, 16, 44], [63, 33, 110], [150, 45, 108], [222, 89, 73], [250, 165, 62], [252, 246, 196]],
    dtype=float,
)
"""Dark to light, so that it reads in grey too."""


def png(pixels: Pixels) -> bytes:
    """Return an image (h×w×3, or h×w×1 for grey) as a PNG file."""
    height, width, channels = pixels.shape
    lines = np.zeros((height, 1 + width * channels), dtype=np.uint8)
    lines[:, 1:] = pixels.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, 2 if channels == 3 else 0, 0, 0, 0)
    body = zlib.compress(lines.tobytes(), 9)
    parts = (_chunk(b"IHDR", header), _chunk(b"IDAT", body), _chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def data_uri(pixels: Pixels) -> str:
    """Return an image as the address of itself."""
    return "data:image/png;base64," + base64.b64encode(png(pixels)).decode()


def heat(values: Map) -> Pixels:
    """Return a map (h×w) as colours, from its lowest to its highest value."""
    low, high = float(values.min()), float(values.max())
    spread = high - low
    part = (values.astype(float) - low) / spread if spread > 0 else np.zeros(values.shape)
    stops = np.linspace(0.0, 1.0, len(_HEAT))
    colours = [np.interp(part, stops, _HEAT[:, channel]) for channel in range(3)]
    return np.stack(colours, axis=-1).round().astype(np.uint8)


def shown(image: Pixels) -> Pixels:
    """Return a picture of one or three channels (h×w×c); of any other number, the first."""
    return image if image.shape[-1] in (1, 3) else image[..., :1]


def _chunk(kind: bytes, body: bytes) -> bytes:
    checksum = zlib.crc32(kind + body)
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", checksum)
