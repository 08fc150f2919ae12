"""The exercise `bpe_decode`: what must hold, and what people really write instead.

Wrong answers are small edits of the reference and use its names, so that two of them can be merged into one program.
"""

from __future__ import annotations

from course_lib import language_model
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import Failure, expect, name_of_type
from course_lib.exercises.decoding.shared import asked

A, B, C = b"abc"

MERGES_OF_THE = [(ord("t"), ord("h")), (256, ord("e")), (ord(" "), 257)]

decoding_pieces = Exercise(
    language_model.bpe_decode,
    cases=[
        {
            "ids": [257, 258, 99, 256],
            "merges": MERGES_OF_THE,
        },
        {
            "ids": [100, 195, 169, 106, 258, 32, 257, 195, 256],
            "merges": [(169, 116), (195, 256), (195, 160), (258, 257)],
        },
        {
            "ids": [259, 98, 258, 257, 260],
            "merges": [(A, B), (256, 256), (B, 257), (258, C), (259, 256)],
        },
        {
            "ids": [226, 256, 33, 257, 130, 172],
            "merges": [(130, 172), (32, 226)],
        },
    ],
    minutes=4,
    difficulty=2,
    hints=[
        "Which bytes does each id stand for? Ids below 256 stand for one byte, themselves. Id 256 stands for the bytes "
        "of the two ids of the first merge, put together.",
        "Build a list of all pieces, in the order of the ids: first bytes([0]) to bytes([255]), then one piece for "
        "every merge. Both parts of a merge are in the list already.",
        "b''.join(…) puts the pieces of all ids together. Only that whole becomes text.",
        "pieces.append(pieces[first] + pieces[second]) for each merge; at the end "
        "b''.join(pieces[i] for i in ids).decode('utf-8', errors='replace').",
    ],
)


def as_code_points(answer):
    """A text as the numbers of its characters: values that can be compared one by one."""
    return [ord(character) for character in answer] if isinstance(answer, str) else answer


def decoded(subject, ids, merges):
    answer = asked(subject, (ids, merges), as_code_points)
    expect(answer is not None, "The result is None. Does every path through your code end in a `return`?")
    expect(isinstance(answer, str), f"The result should be a str, but it is {name_of_type(answer)}.")
    return answer


def expect_text(got, ids, merges):
    want = language_model.bpe_decode(ids, merges)
    if got != want:
        shown = f"the merges {merges}" if merges else "no merges"
        raise Failure(f"With {shown}, the ids {ids} should become the str {want!r}, but yours is {got!r}.")


@decoding_pieces.property("ids below 256 are bytes: the text that they spell", points=1)
def decoding_bytes(subject, case):
    pieces = language_model.bpe_decode(case["ids"], case["merges"])
    ids = [byte for byte in pieces.encode("utf-8") if byte < 128]
    expect_text(decoded(subject, ids, []), ids, [])


@decoding_pieces.property("an id from 256 on stands for the bytes of its merge", points=2)
def decoding_merges(subject, case):
    merges = [*MERGES_OF_THE, (258, ord("n"))]
    for ids in ([116, 256, 101], [99, 257, 257], [258, 259, 114, 258]):
        expect_text(decoded(subject, ids, merges), ids, merges)


@decoding_pieces.property("a character may be spread over several ids", points=2)
def decoding_characters(subject, case):
    for ids, merges in (([195, 169, 33, 226, 130, 172], []), ([195, 257, 169], [(169, 32), (256, 195)])):
        expect_text(decoded(subject, ids, merges), ids, merges)


@decoding_pieces.property(
    "bytes that are not valid text become \N{REPLACEMENT CHARACTER}; everything else comes out whole", points=1
)
def decoding_broken(subject, case):
    expect_text(decoded(subject, *case.values()), *case.values())
    for ids in ([104, 195], [130, 111, 107], []):
        expect_text(decoded(subject, ids, case["merges"]), ids, case["merges"])


@decoding_pieces.misconception
def text_piece_by_piece(ids, merges):
    """You turn each piece into text by itself. Put the bytes of all pieces together first.

    A character whose bytes lie in two pieces is lost: each half alone is not valid text."""
    pieces = [bytes([byte]) for byte in range(256)]
    for first, second in merges:
        pieces += [pieces[first] + pieces[second]]
    return "".join(pieces[piece].decode("utf-8", errors="replace") for piece in ids)


@decoding_pieces.misconception
def text_byte_by_byte(ids, merges):
    """You turn each byte into a character of its own. Characters beyond ASCII have several bytes: decode all bytes
    together, as UTF-8."""
    pieces = [bytes([byte]) for byte in range(256)]
    for first, second in merges:
        pieces += [pieces[first] + pieces[second]]
    whole = b"".join(pieces[piece] for piece in ids)
    return whole.decode("latin-1")


@decoding_pieces.misconception
def expands_one_level(ids, merges):
    """You replace an id by the two ids of its merge, but only once. Those may be merges themselves: go down to the
    bytes."""
    flat = [part for piece in ids for part in (merges[piece - 256] if piece >= 256 else [piece])]
    return bytes(flat).decode("utf-8", errors="replace")


@decoding_pieces.misconception
def parts_exchanged(ids, merges):
    """You put the second part of a merge before the first."""
    pieces = [bytes([byte]) for byte in range(256)]
    for first, second in merges:
        pieces += [pieces[second] + pieces[first]]
    whole = b"".join(pieces[piece] for piece in ids)
    return whole.decode("utf-8", errors="replace")


@decoding_pieces.misconception
def bytes_only(ids, merges):
    """Ids from 256 on are left out. Each stands for the bytes of its merge."""
    pieces = [bytes([byte]) for byte in range(256)]
    whole = b"".join(pieces[piece] for piece in ids if piece < 256)
    return whole.decode("utf-8", errors="replace")


@decoding_pieces.misconception
def new_ids_are_characters(ids, merges):
    """You take each id for the number of a character. Ids below 256 are bytes, and the others stand for the bytes of
    their merges."""
    return "".join(chr(piece) for piece in ids)


@decoding_pieces.misconception
def ids_from_255(ids, merges):
    """You look up the merges one place too far on: id 256 is the first merge, number 0."""
    pieces = [bytes([byte]) for byte in range(255)]
    for first, second in merges:
        pieces += [pieces[first] + pieces[second]]
    whole = b"".join(pieces[min(piece, len(pieces) - 1)] for piece in ids)
    return whole.decode("utf-8", errors="replace")


@decoding_pieces.misconception
def ids_from_257(ids, merges):
    """You look up the merges one place too early: id 256 is the first merge, number 0."""
    pieces = [bytes([byte]) for byte in range(256)] + [b""]
    for first, second in merges:
        pieces += [pieces[first] + pieces[second]]
    whole = b"".join(pieces[piece] for piece in ids)
    return whole.decode("utf-8", errors="replace")


@decoding_pieces.misconception
def drops_broken_bytes(ids, merges):
    """You leave out bytes that are not valid text (errors="ignore"). They should become \N{REPLACEMENT CHARACTER}, so
    that readers see that something was there."""
    pieces = [bytes([byte]) for byte in range(256)]
    for first, second in merges:
        pieces += [pieces[first] + pieces[second]]
    whole = b"".join(pieces[piece] for piece in ids)
    return whole.decode("utf-8", errors="ignore")


@decoding_pieces.misconception
def insists_on_text(ids, merges):
    """Your decoding raises an error where the bytes are not valid text. Ask for replacement instead: errors="replace".

    A model may write half a character."""
    pieces = [bytes([byte]) for byte in range(256)]
    for first, second in merges:
        pieces += [pieces[first] + pieces[second]]
    whole = b"".join(pieces[piece] for piece in ids)
    return whole.decode("utf-8")


@decoding_pieces.misconception
def escapes_broken_bytes(ids, merges):
    r"""You write out bytes that are not valid text as \x.. (errors="backslashreplace"). They should become "�"
    (errors="replace")."""
    pieces = [bytes([byte]) for byte in range(256)]
    for first, second in merges:
        pieces += [pieces[first] + pieces[second]]
    whole = b"".join(pieces[piece] for piece in ids)
    return whole.decode("utf-8", errors="backslashreplace")


@decoding_pieces.misconception
def spaces_between_pieces(ids, merges):
    """You put a space between the pieces. The spaces of the text are in the pieces already."""
    pieces = [bytes([byte]) for byte in range(256)]
    for first, second in merges:
        pieces += [pieces[first] + pieces[second]]
    whole = b" ".join(pieces[piece] for piece in ids)
    return whole.decode("utf-8", errors="replace")


@decoding_pieces.misconception
def strips_the_text(ids, merges):
    """You strip the text. The spaces at its ends belong to it."""
    pieces = [bytes([byte]) for byte in range(256)]
    for first, second in merges:
        pieces += [pieces[first] + pieces[second]]
    whole = b"".join(pieces[piece] for piece in ids)
    return whole.decode("utf-8", errors="replace").strip()


@decoding_pieces.misconception
def shows_the_bytes(ids, merges):
    """You return the bytes as Python prints them, b'…'. They still have to be decoded into text."""
    pieces = [bytes([byte]) for byte in range(256)]
    for first, second in merges:
        pieces += [pieces[first] + pieces[second]]
    whole = b"".join(pieces[piece] for piece in ids)
    return str(whole)


@decoding_pieces.misconception
def backwards(ids, merges):
    """The pieces are put together from the last to the first."""
    pieces = [bytes([byte]) for byte in range(256)]
    for first, second in merges:
        pieces += [pieces[first] + pieces[second]]
    whole = b"".join(pieces[piece] for piece in reversed(ids))
    return whole.decode("utf-8", errors="replace")


@decoding_pieces.alternative
def by_recursion(ids, merges):
    def spell(piece):
        if piece < 256:
            return bytes((piece,))
        return b"".join(spell(part) for part in merges[piece - 256])

    return b"".join(map(spell, ids)).decode(errors="replace")


@decoding_pieces.alternative
def undoing_the_merges(ids, merges):
    for number in reversed(range(len(merges))):
        undone = []
        for piece in ids:
            undone += merges[number] if piece == 256 + number else [piece]
        ids = undone
    return str(bytes(ids), "utf-8", "replace")


@decoding_pieces.alternative
def with_a_stack(ids, merges):
    out, left = bytearray(), list(ids)[::-1]
    while left:
        piece = left.pop()
        if piece > 255:
            left += [merges[piece - 256][1], merges[piece - 256][0]]
        else:
            out.append(piece)
    return out.decode("utf8", "replace")
