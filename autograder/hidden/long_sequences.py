"""Hidden cases on long sequences."""

from __future__ import annotations

from autograder.hidden import Case, Draw, hidden
from course_lib.checking.settings import BackwardPass
from course_lib.exercises import long_sequences


@hidden(long_sequences.memory)
def attention_memory(draw: Draw) -> list[Case]:
    def case(batch: int, heads: int, length: int, copies: int, size: int) -> Case:
        return {"batch": batch, "num_heads": heads, "length": length, "copies": copies, "bytes_per_number": size}

    return [
        case(*draw.sizes((2, 9), (2, 12), (20, 90), (3, 7)), 2),
        case(1, draw.integer(2, 6), draw.integer(1000, 9000), 2, 8),
    ]


@hidden(long_sequences.online)
def online_softmax(draw: Draw) -> list[Case]:
    def case(*sizes: int, rows: tuple[int, ...], scale: float = 2.0) -> Case:
        """All scores of the first row are negative."""
        chunks = [draw.normal(*rows, size, scale=scale) for size in sizes]
        for chunk in chunks:
            chunk.view(-1, chunk.shape[-1])[0] -= 20.0
        return {"chunks": chunks}

    first, second, third = draw.sizes((1, 3), (4, 6), (7, 9))
    return [
        case(second, first, third, rows=(draw.integer(2, 4),)),
        case(third, second, first, second, rows=draw.sizes((2, 3), (2, 4)), scale=4.0),
        case(first, third, rows=()),
    ]


@hidden(long_sequences.tiled)
def tiled_attention(draw: Draw) -> list[Case]:
    def case(*lead: int, n_q: int, n_k: int, d_k: int, d_v: int, tile: int, causal: bool) -> Case:
        q, k, v = draw.normal(*lead, n_q, d_k), draw.normal(*lead, n_k, d_k), draw.normal(*lead, n_k, d_v)
        return {"q": q, "k": k, "v": v, "tile": tile, "causal": causal}

    n_q, n_k, d_k, d_v = draw.sizes((3, 6), (7, 12), (4, 8), (5, 9))
    length = draw.integer(8, 13)
    return [
        case(n_q=n_q, n_k=n_k, d_k=d_k, d_v=d_v, tile=3, causal=False),
        case(2, n_q=length, n_k=length, d_k=d_k, d_v=d_v, tile=draw.integer(3, 5), causal=True),
        case(3, 2, n_q=n_q, n_k=n_k, d_k=d_k, d_v=d_v, tile=draw.integer(4, 5), causal=False),
    ]


@hidden(long_sequences.strided)
def strided_mask(draw: Draw) -> list[Case]:
    return [
        {"length": draw.integer(14, 18), "stride": 4},
        {"length": draw.integer(40, 70), "stride": draw.integer(5, 8)},
        {"length": draw.integer(6, 9), "stride": 2},
        {"length": draw.integer(2, 4), "stride": draw.integer(6, 9)},
    ]


@hidden(long_sequences.linear)
def linear_attention(draw: Draw) -> list[Case]:
    def case(*lead: int, n_q: int, n_k: int, d_k: int, d_v: int, causal: bool) -> Case:
        q, k, v = draw.normal(*lead, n_q, d_k), draw.normal(*lead, n_k, d_k), draw.normal(*lead, n_k, d_v)
        return {"q": q, "k": k, "v": v, "causal": causal}

    n_q, n_k, d_k, d_v = draw.sizes((3, 6), (7, 12), (2, 5), (3, 9))
    return [
        case(n_q=n_q, n_k=n_k, d_k=d_k, d_v=d_v, causal=False),
        case(2, n_q=n_k, n_k=n_k, d_k=d_k, d_v=d_v, causal=True),
        case(2, 3, n_q=n_q, n_k=n_k, d_k=d_k, d_v=d_v, causal=False),
    ]


@hidden(long_sequences.segments)
def segment_memory(draw: Draw) -> list[Case]:
    def case(n: int, m: int, keep: int) -> Case:
        batch, d_model, d_k, d_v = draw.sizes((2, 3), (3, 5), (4, 7), (6, 9))
        return {
            "segment": draw.normal(batch, n, d_model),
            "memory": draw.normal(batch, m, d_model),
            "w_q": draw.normal(d_model, d_k, scale=0.7),
            "w_k": draw.normal(d_model, d_k, scale=0.7),
            "w_v": draw.normal(d_model, d_v),
            "keep": keep,
        }

    n, m = draw.sizes((3, 5), (2, 6))
    return [case(n, m, n + 1), case(m + 1, n, 1), case(draw.integer(2, 4), 7, 6), case(4, 0, 3)]


@hidden(long_sequences.block_table)
def block_table(draw: Draw) -> list[Case]:
    def case(block_size: int, spare: int) -> Case:
        """Sequences that grow by turns. One of two blocks ends; another one takes the first of these; then the name of
        the one that has ended begins again, elsewhere.
        """
        names = draw.shuffled("pqrs")
        ended, other = names[0], names[1]
        tokens = [*names[:2], *draw.shuffled([ended] * block_size + [other] * block_size), *names[2:]]
        later = [other] * block_size + draw.shuffled([ended, *names[2:]])
        blocks = {name: -(-tokens.count(name) // block_size) for name in names}
        blocks[other] += 1
        if block_size == 1:
            blocks |= {name: blocks[name] + 1 for name in names[2:]}
        text = {"tokens": "".join(tokens), "ended": ended, "later": "".join(later)}
        return {"num_blocks": sum(blocks.values()) + spare, "block_size": block_size, **text}

    return [case(draw.integer(3, 5), 0), case(2, draw.integer(1, 3)), case(1, draw.integer(0, 1)), case(6, 1)]


@hidden(long_sequences.checkpoints)
def checkpointed(draw: Draw) -> list[Case]:
    def case(*lead: int) -> Case:
        d_in, d_out = draw.sizes((2, 5), (3, 7))
        x, weight, bias = draw.normal(*lead, d_in), draw.normal(d_in, d_out, scale=0.6), draw.normal(d_out)
        return {"function": BackwardPass(x, weight, bias)}

    return [case(draw.integer(6, 9)), case(*draw.sizes((2, 3), (4, 5))), case(1)]
