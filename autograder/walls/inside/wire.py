"""Messages between the judge and a runner: JSON, followed by the bytes of tensors. Never pickle.

A message is the length of the JSON, the length of the bytes, the JSON, the bytes. Plain data looks like itself, except
for

    {"tuple": [...]}  {"set": [...]}  {"dict": [[key, value], ...]}  {"tensor": [dtype, shape, start]}
    {"opaque": "type"}  {"slice": [start, stop, step]}  {"ellipsis": []}  {"object": [module, name, {field: value}]}

A runner may say whatever it likes: `decode` believes nothing, takes no objects unless told which, and has caps.
"""

from __future__ import annotations

import dataclasses
import json
import math
import socket
import struct
import time
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

HEADER = struct.Struct("!II")
DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        *(torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
        *(torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128),
    )
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
NUMPYS = {*DTYPES.values()} - {torch.bfloat16, torch.complex64, torch.complex128}  # the same bytes as in an array
DEEPEST = 40
LONGEST_TEXT = 20_000  # of a string that a runner sends; nobody reads more
MOST_BYTES = 64 * 2**20  # of tensors in a message: no answer to an exercise is nearly as large
MOST_TEXT = 4 * 2**20  # of JSON: a million small objects take up hundreds of megabytes
MOST_VALUES = 200_000  # in a message: lists in lists take far more memory than text
VALUES_OF_A_TENSOR = 50  # that take as long to read as one tensor
MOST_AXES = 64  # torch itself has no more
LARGEST_LENGTH = 2**40  # of one axis of a tensor without entries; beyond it torch overflows
MOST_AT_ONCE = 2**16  # bytes that are read ahead
LONGEST_NAME = 300  # of a parameter or a type

AGAIN = b'"again"'  # the text of a message: the answer is the same as when this was asked before

SCALARS = (bool, int, float, str)
AS_THEY_ARE = frozenset([type(None), *SCALARS])
WORDS: dict[Any, str] = {None: "null", True: "true", False: "false"}
WORDS_FOR = frozenset([type(None), bool])

ObjectMaker = Callable[[str, str, dict[str, Any]], Any]


class WireError(Exception):
    """The other side is gone, or says something that is not a message."""


class Late(WireError):
    """No message came in time."""


# --- values -------------------------------------------------------------------------------------------------------


def encode(value: Any) -> bytes:
    """The message that holds `value`."""
    encoder = Encoder()
    text = encoder.text_of(value, 0).encode()
    return framed(text, bytes(encoder.blob))


def framed(text: bytes, blob: bytes = b"") -> bytes:
    return HEADER.pack(len(text), len(blob)) + text + blob


class Encoder:
    """Writes one message. A tensor that occurs in it several times is written once.

    JSON is put together here, since hundreds of messages are written for each submission: a tree for `json.dumps`
    would take half as long again.
    """

    def __init__(self) -> None:
        self.blob = bytearray()
        self.written: dict[int, str] = {}  # id of a tensor, which lives as long as the message is written

    def text_of(self, value: Any, depth: int) -> str:
        if depth > DEEPEST:
            raise WireError("The value is nested too deeply.")
        if type(value) in AS_THEY_ARE:  # most are, and looking no further saves half of the time
            return scalar_text(value)
        if isinstance(value, Tensor):
            return self.written.get(id(value)) or self.tensor_text(value)
        if isinstance(value, list):
            return self.list_text(value, depth)
        if isinstance(value, tuple):
            return f'{{"tuple": {self.list_text(value, depth)}}}'
        if isinstance(value, SCALARS):
            return json.dumps(value)
        if isinstance(value, set):
            return f'{{"set": {self.list_text(value, depth)}}}'
        if isinstance(value, dict):
            return self.dict_text(value, depth)
        if isinstance(value, slice):
            return json.dumps({"slice": [value.start, value.stop, value.step]})
        if value is Ellipsis:
            return '{"ellipsis": []}'
        if type(value).__name__ == "Opaque":
            return json.dumps({"opaque": value.type_name})
        if dataclasses.is_dataclass(value):
            return self.object_text(value, depth)
        return json.dumps({"opaque": type(value).__name__})

    def list_text(self, values: Iterable[Any], depth: int) -> str:
        return f"[{', '.join([self.text_of(value, depth + 1) for value in values])}]"

    def dict_text(self, value: dict[Any, Any], depth: int) -> str:
        pairs = [f"[{json.dumps(str(key))}, {self.text_of(item, depth + 1)}]" for key, item in value.items()]
        return f'{{"dict": [{", ".join(pairs)}]}}'

    def object_text(self, value: Any, depth: int) -> str:
        parts = ((json.dumps(f.name), getattr(value, f.name)) for f in dataclasses.fields(value))
        fields = ", ".join([f"{name}: {self.text_of(item, depth + 1)}" for name, item in parts])
        module, name = map(json.dumps, (type(value).__module__, type(value).__name__))
        return f'{{"object": [{module}, {name}, {{{fields}}}]}}'

    def tensor_text(self, tensor: Tensor) -> str:
        if tensor.dtype not in NAMES or tensor.layout != torch.strided:
            raise WireError(f"A tensor of dtype {tensor.dtype} cannot be sent.")
        text = f'{{"tensor": ["{NAMES[tensor.dtype]}", {[*tensor.shape]}, {len(self.blob)}]}}'
        self.written[id(tensor)] = text
        self.blob += bytes_of(tensor)
        return text


def scalar_text(value: bool | int | float | str | None) -> str:
    """As json.dumps, which takes long for what needs no escapes."""
    if type(value) is int:
        return repr(value)
    return WORDS[value] if type(value) in WORDS_FOR else json.dumps(value)


def bytes_of(tensor: Tensor) -> bytes:
    """The entries of a tensor, row by row."""
    plain = tensor.detach() if tensor.requires_grad else tensor
    if plain.dtype in NUMPYS and plain.is_cpu and not plain.is_neg():
        return plain.numpy().tobytes()
    return plain.cpu().resolve_conj().contiguous().flatten().view(torch.uint8).numpy().tobytes()


def decode(text: bytes, blob: bytes, objects: ObjectMaker | None = None, opaque: Callable[[str], Any] = str) -> Any:
    """The value in a message. Raises WireError whatever is wrong with it."""
    try:
        return Decoder(blob, objects, opaque).value_of(json.loads(text), 0)
    except WireError:
        raise
    except Exception as error:  # whatever a hostile message provokes: recursion, overflow, missing entries
        raise WireError(f"This is not a message ({type(error).__name__}).") from None


class Decoder:
    """Reads one message, and counts what comes of it: a short message may ask for much."""

    def __init__(self, blob: bytes, objects: ObjectMaker | None, opaque: Callable[[str], Any]):
        self.blob = blob
        self.objects = objects  # None: the message comes from a stranger
        self.opaque = opaque
        self.values = 0
        self.bytes = 0
        self.read: dict[tuple[Any, ...], Tensor] = {}  # in a message that does not come from a stranger

    def value_of(self, tree: Any, depth: int) -> Any:
        self.values += 1
        if depth > DEEPEST:
            raise WireError("The value is nested too deeply.")
        if self.objects is None and self.values > MOST_VALUES:
            raise WireError("The message has too many values.")
        if type(tree) is list:  # JSON has no subclasses
            return self.list_of(tree, depth)
        if type(tree) is str:
            return tree if self.objects else tame(tree)
        if type(tree) is not dict:
            return tree
        ((kind, content),) = tree.items()
        match kind:
            case "tuple":
                return tuple(self.list_of(content, depth))
            case "set":
                return set(self.list_of(content, depth))
            case "dict":
                return {tame_name(str(key)): self.value_of(item, depth + 1) for key, item in content}
            case "tensor":
                return self.tensor_of(*content)
            case "opaque":
                return self.opaque(tame_name(str(content)))
            case "slice":
                return slice(*content)
            case "ellipsis":
                return Ellipsis
            case "object" if self.objects:
                module, name, fields = content
                return self.objects(module, name, {key: self.value_of(v, depth + 1) for key, v in fields.items()})
        raise WireError(f"There is no {kind!r} in a message.")

    def list_of(self, trees: list[Any], depth: int) -> list[Any]:
        if self.objects is None:
            return [self.value_of(item, depth + 1) for item in trees]
        return [item if type(item) in AS_THEY_ARE else self.value_of(item, depth + 1) for item in trees]

    def tensor_of(self, name: str, shape: list[int], start: int) -> Tensor:
        dtype = DTYPES[name]
        if len(shape) > MOST_AXES or not all(type(n) is int and 0 <= n <= LARGEST_LENGTH for n in [*shape, start]):
            raise WireError("A tensor cannot have this shape.")
        key = (name, start, *shape)
        if self.objects is not None and key in self.read:
            return self.read[key]
        self.values += VALUES_OF_A_TENSOR
        count = math.prod(shape)
        end = start + count * dtype.itemsize
        self.bytes += end - start
        if end > len(self.blob):
            raise WireError("A tensor has fewer bytes than its shape says.")
        if self.objects is None and self.bytes > MOST_BYTES:  # the same bytes may be named many times
            raise WireError("The message has too many tensors.")
        if count == 0:
            return torch.empty(shape, dtype=dtype)
        tensor = torch.frombuffer(bytearray(self.blob[start:end]), dtype=dtype).reshape(shape)
        self.read[key] = tensor
        return tensor


def tame(text: str) -> str:
    """A stranger's text: not endless, and writable to a file."""
    return text[:LONGEST_TEXT].encode("utf-8", "replace").decode()


def tame_name(text: str) -> str:
    """The same for names of parameters and types."""
    return tame(text[:LONGEST_NAME])


# --- the channel --------------------------------------------------------------------------------------------------


class Channel:
    """One end of a connection that carries messages."""

    def __init__(
        self, connection: socket.socket, objects: ObjectMaker | None = None, opaque: Callable[[str], Any] = str
    ):
        self.connection = connection
        self.objects = objects
        self.opaque = opaque
        self.arrived = bytearray()
        self.read = 0  # how much of that was read
        self.held = bytearray()  # messages that are sent together with the next one

    def hold(self, message: bytes) -> None:
        """Send a message, but not before there is another to send."""
        self.held += message

    def send(self, value: Any, seconds: float | None = None) -> None:
        self.send_message(encode(value), seconds)

    def send_message(self, message: bytes, seconds: float | None = None) -> None:
        data, self.held = bytes(self.held) + message, bytearray()
        self.connection.settimeout(seconds)
        try:
            self.connection.sendall(data)
        except TimeoutError:
            raise Late("The other side does not listen.") from None
        except OSError as error:
            raise WireError(f"The other side is gone ({error}).") from None

    def receive(self, seconds: float | None = None) -> Any:
        """The next message. `Late` after this many seconds, even if it trickles in byte by byte."""
        return self.decoded(*self.receive_message(seconds))

    def receive_message(self, seconds: float | None = None) -> tuple[bytes, bytes]:
        """The next message as it came: its text, and the bytes of its tensors."""
        deadline = None if seconds is None else time.monotonic() + seconds
        self._wait_for(HEADER.size, deadline)
        text_length, blob_length = HEADER.unpack_from(self.arrived, self.read)
        if self.objects is None and (text_length > MOST_TEXT or blob_length > MOST_BYTES):
            raise WireError("The message is too long.")
        self._wait_for(HEADER.size + text_length + blob_length, deadline)
        begin = self.read + HEADER.size
        middle = begin + text_length
        self.read = middle + blob_length
        return bytes(self.arrived[begin:middle]), bytes(self.arrived[middle : self.read])

    def decoded(self, text: bytes, blob: bytes) -> Any:
        return decode(text, blob, self.objects, self.opaque)

    def _wait_for(self, count: int, deadline: float | None) -> None:
        """Wait until this many bytes have arrived that were not read."""
        while len(self.arrived) - self.read < count:
            del self.arrived[: self.read]
            self.read = 0
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise Late("No answer in time.")
            self.connection.settimeout(left)
            try:
                piece = self.connection.recv(max(MOST_AT_ONCE, min(count - len(self.arrived), 2**20)))
            except TimeoutError:
                raise Late("No answer in time.") from None
            except OSError as error:
                raise WireError(f"The other side is gone ({error}).") from None
            if not piece:
                raise WireError("The other side is gone.")
            self.arrived += piece

    def close(self) -> None:
        self.connection.close()
