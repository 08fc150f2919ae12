"""The exercise `wordpiece`: what must hold, and what people really write instead."""

from __future__ import annotations

from course_lib import classification
from course_lib.checking.exercise import Exercise
from course_lib.checking.expect import Failure, expect, name_of_type
from course_lib.classification import UNKNOWN

wordpiece = Exercise(
    classification.wordpiece,
    cases=[
        {"word": "walking", "vocabulary": {"walk", "wal", "##king", "##ing", "##i", "ing"}},
        {"word": "cat", "vocabulary": {"c", "ca", "cat", "##at", "##t"}},
        {"word": "together", "vocabulary": {"to", "toge", "##gether", "##t", "##h", "##er", "##ther"}},
        {"word": "mat", "vocabulary": {"mat", "m", "##at", "##mat"}},
        {"word": "aaaaa", "vocabulary": {"a", "aa", "##a", "##aa", "##aaaa"}},
        {"word": "undo", "vocabulary": {"un", "und", "##do", "u", "##ndo"}},
        {"word": "seaside", "vocabulary": {"sea", "side", "##s", "##id"}},
        {"word": "singer", "vocabulary": {"##sing", "s", "##i", "##n", "##ger", "##er"}},
        {"word": "Walk", "vocabulary": {"walk", "W", "##a", "##lk"}},
        {"word": "cafés", "vocabulary": {"caf", "##s", "c", "##a", "##f"}},
        {"word": "éclair", "vocabulary": {"clair", "##clair", "##c"}},
        {"word": "tested", "vocabulary": {"test", "##ed", "##sted"}},
        {"word": "dog", "vocabulary": {"d", "##o", "##g", "o", "g"}},
        {"word": "xy", "vocabulary": {"##xy", "##y"}},
    ],
    minutes=11,
    difficulty=2,
    hints=[
        "Try the whole word first, then the word without its last letter, and so on, until something is in the "
        "vocabulary. That is the first piece. Then do the same with what is left.",
        'For every piece but the first it is "##" + letters that has to be in the vocabulary, and that is what goes '
        "into the result.",
        "Keep what is left of the word in a variable: rest = rest[n:]. If no n from len(rest) down to 1 gives an "
        'entry, return ["[UNK]"] at once.',
        'while rest: mark = "##" if pieces else ""; look for the largest n with mark + rest[:n] in vocabulary; '
        "pieces.append(mark + rest[:n]); rest = rest[n:]",
    ],
)


def pieces_of(subject, word: str, vocabulary: set[str]) -> list[str]:
    """What the subject makes of a word: a list of strings."""
    got = subject(word, vocabulary)
    if got is None:
        raise Failure("The result is None. Does every path through your code end in a `return`?")
    if not isinstance(got, list | tuple):
        raise Failure(f"The result should be a list of pieces, but it is {name_of_type(got)}.")
    strange = [item for item in got if not isinstance(item, str)]
    expect(not strange, f"The pieces should be strings, but one is {name_of_type(strange[0]) if strange else ''}.")
    return list(got)


@wordpiece.property("a list of strings", points=1)
def pieces_are_strings(subject, case):
    pieces_of(subject, *case.values())


@wordpiece.property("a word of the vocabulary is one piece: itself", points=1)
def known_word(subject, case):
    word, vocabulary = case.values()
    got = pieces_of(subject, word, vocabulary | {word})
    expect(got == [word], f"With {word!r} itself in the vocabulary the result should be {[word]}, but it is {got}.")


@wordpiece.property("put together, the pieces are the word; all but the first have ## in front", points=1)
def pieces_make_the_word(subject, case):
    word, vocabulary = case.values()
    got, want = pieces_of(subject, word, vocabulary), classification.wordpiece(word, vocabulary)
    if want == [UNKNOWN]:
        return
    expect(got, "The list is empty.")
    expect(got != [UNKNOWN], f"The result is {got}, but from the left a piece fits at every place of {word!r}.")
    first, *later = got
    unmarked = [piece for piece in later if not piece.startswith("##")]
    expect(not first.startswith("##"), f"The first piece is {first!r}. The mark says that something comes before.")
    expect(not unmarked, f"The piece {unmarked[0] if unmarked else ''!r} is not the first: it should begin with ##.")
    together = first + "".join(piece.removeprefix("##") for piece in later)
    expect(together == word, f"Put together, without the marks, the pieces {got} give {together!r}.")


@wordpiece.property("each piece is the longest entry of the vocabulary that fits there", points=2)
def pieces_are_longest(subject, case):
    word, vocabulary = case.values()
    got, want = pieces_of(subject, word, vocabulary), classification.wordpiece(word, vocabulary)
    if want != [UNKNOWN]:
        expect(got == want, f"The result should be {want}, but it is {got}.")


@wordpiece.property("where no piece fits, the whole word becomes [UNK]", points=1)
def unknown_words(subject, case):
    word, vocabulary = case.values()
    got, want = pieces_of(subject, word, vocabulary), classification.wordpiece(word, vocabulary)
    if want == [UNKNOWN]:
        expect(
            got == want, f"From the left, no piece fits at some place. The result should be {want}, but it is {got}."
        )
    got = pieces_of(subject, word, set())
    expect(got == [UNKNOWN], f"With an empty vocabulary the result should be {[UNKNOWN]}, but it is {got}.")


@wordpiece.misconception
def takes_the_shortest(word, vocabulary):
    """You take the shortest piece that fits. The longest is asked for.

    If all letters are entries, every word falls apart into its letters."""
    pieces = []
    rest = word
    for _ in word:
        mark = "##" if pieces else ""
        fitting = [n for n in range(1, len(rest) + 1) if mark + rest[:n] in vocabulary]
        if not fitting:
            return [UNKNOWN]
        longest = min(fitting)
        pieces.append(mark + rest[:longest])
        rest = rest[longest:]
        if not rest:
            break
    return pieces


@wordpiece.misconception
def goes_back_when_stuck(word, vocabulary):
    """You go back and try a shorter piece when no piece fits. This cut is greedy: a piece, once taken, is kept, and
    a word that gets stuck is [UNK]."""

    def cut(rest, mark):
        if not rest:
            return []
        for n in range(len(rest), 0, -1):
            if mark + rest[:n] in vocabulary:
                behind = cut(rest[n:], "##")
                if behind is not None:
                    return [mark + rest[:n], *behind]
        return None

    pieces = cut(word, "")
    return [UNKNOWN] if pieces is None else pieces


@wordpiece.misconception
def looks_for_the_fewest_pieces(word, vocabulary):
    """You look for the cut with the fewest pieces. This cut is greedy: it takes the longest piece from the left,
    whatever comes of it."""
    best = {0: []}
    for end in range(1, len(word) + 1):
        ways = []
        for start in range(end):
            piece = ("##" if start else "") + word[start:end]
            if start in best and piece in vocabulary:
                ways.append([*best[start], piece])
        if ways:
            best[end] = min(ways, key=len)
    return best.get(len(word), [UNKNOWN])


@wordpiece.misconception
def cuts_from_the_right(word, vocabulary):
    """You begin at the end of the word. The first piece is the longest that fits at its beginning."""
    pieces = []
    rest = word
    for _ in word:
        fitting = [n for n in range(len(rest)) if ("##" if n else "") + rest[n:] in vocabulary]
        if not fitting:
            return [UNKNOWN]
        start = min(fitting)
        pieces.insert(0, ("##" if start else "") + rest[start:])
        rest = rest[:start]
        if not rest:
            break
    return pieces


@wordpiece.misconception
def leaves_the_marks_out_of_the_result(word, vocabulary):
    """You look up later pieces with "##", but return them without it. The mark belongs to the piece.

    Without it nobody can tell where one word ends and the next begins."""
    pieces = []
    rest = word
    for _ in word:
        mark = "##" if pieces else ""
        fitting = [n for n in range(1, len(rest) + 1) if mark + rest[:n] in vocabulary]
        if not fitting:
            return [UNKNOWN]
        longest = max(fitting)
        pieces.append(rest[:longest])
        rest = rest[longest:]
        if not rest:
            break
    return pieces


@wordpiece.misconception
def looks_pieces_up_without_marks(word, vocabulary):
    """You look up later pieces without "##", and put the mark in front afterwards. "ing" and "##ing" are two
    different entries of the vocabulary."""
    pieces = []
    rest = word
    for _ in word:
        mark = "##" if pieces else ""
        fitting = [n for n in range(1, len(rest) + 1) if rest[:n] in vocabulary]
        if not fitting:
            return [UNKNOWN]
        longest = max(fitting)
        pieces.append(mark + rest[:longest])
        rest = rest[longest:]
        if not rest:
            break
    return pieces


@wordpiece.misconception
def knows_no_marks(word, vocabulary):
    """Your pieces have no marks: later ones are looked up and returned without "##"."""
    pieces = []
    rest = word
    for _ in word:
        mark = ""
        fitting = [n for n in range(1, len(rest) + 1) if mark + rest[:n] in vocabulary]
        if not fitting:
            return [UNKNOWN]
        longest = max(fitting)
        pieces.append(mark + rest[:longest])
        rest = rest[longest:]
        if not rest:
            break
    return pieces


@wordpiece.misconception
def takes_unmarked_pieces_too(word, vocabulary):
    """You take an entry without "##" for a later piece if there is none with it. Only marked entries fit after the
    first piece."""
    pieces = []
    rest = word
    for _ in word:
        mark = "##" if pieces else ""
        fitting = [n for n in range(1, len(rest) + 1) if mark + rest[:n] in vocabulary or rest[:n] in vocabulary]
        if not fitting:
            return [UNKNOWN]
        longest = max(fitting)
        pieces.append(mark + rest[:longest])
        rest = rest[longest:]
        if not rest:
            break
    return pieces


@wordpiece.misconception
def marks_the_first_piece(word, vocabulary):
    """You mark the first piece, too. "##" says that something comes before."""
    pieces = []
    rest = word
    for _ in word:
        mark = "##"
        fitting = [n for n in range(1, len(rest) + 1) if mark + rest[:n] in vocabulary]
        if not fitting:
            return [UNKNOWN]
        longest = max(fitting)
        pieces.append(mark + rest[:longest])
        rest = rest[longest:]
        if not rest:
            break
    return pieces


@wordpiece.misconception
def takes_marked_pieces_for_the_first(word, vocabulary):
    """You take a marked entry for the first piece if there is no unmarked one. "##" says that something comes
    before."""
    pieces = []
    rest = word
    for _ in word:
        mark = "##" if pieces else ""
        fitting = [n for n in range(1, len(rest) + 1) if mark + rest[:n] in vocabulary or "##" + rest[:n] in vocabulary]
        if not fitting:
            return [UNKNOWN]
        longest = max(fitting)
        pieces.append(mark + rest[:longest])
        rest = rest[longest:]
        if not rest:
            break
    return pieces


@wordpiece.misconception
def keeps_the_pieces_before_the_gap(word, vocabulary):
    """You keep the pieces before the place where nothing fits, and put [UNK] after them. The whole word becomes
    [UNK]."""
    pieces = []
    rest = word
    for _ in word:
        mark = "##" if pieces else ""
        fitting = [n for n in range(1, len(rest) + 1) if mark + rest[:n] in vocabulary]
        if not fitting:
            return [*pieces, UNKNOWN]
        longest = max(fitting)
        pieces.append(mark + rest[:longest])
        rest = rest[longest:]
        if not rest:
            break
    return pieces


@wordpiece.misconception
def returns_the_pieces_before_the_gap(word, vocabulary):
    """Where no piece fits you return the pieces found so far. The whole word becomes [UNK].

    Two different words may then look the same."""
    pieces = []
    rest = word
    for _ in word:
        mark = "##" if pieces else ""
        fitting = [n for n in range(1, len(rest) + 1) if mark + rest[:n] in vocabulary]
        if not fitting:
            return pieces
        longest = max(fitting)
        pieces.append(mark + rest[:longest])
        rest = rest[longest:]
        if not rest:
            break
    return pieces


@wordpiece.misconception
def replaces_single_letters(word, vocabulary):
    """You write [UNK] for the letter at which nothing fits, and continue after it. The whole word becomes [UNK]."""
    pieces = []
    rest = word
    for _ in word:
        mark = "##" if pieces else ""
        fitting = [n for n in range(1, len(rest) + 1) if mark + rest[:n] in vocabulary]
        if not fitting:
            pieces.append(UNKNOWN)
            rest = rest[1:]
            if not rest:
                break
            continue
        longest = max(fitting)
        pieces.append(mark + rest[:longest])
        rest = rest[longest:]
        if not rest:
            break
    return pieces


@wordpiece.misconception
def skips_single_letters(word, vocabulary):
    """You leave out the letter at which nothing fits, and continue after it. The whole word becomes [UNK]."""
    pieces = []
    rest = word
    for _ in word:
        mark = "##" if pieces else ""
        fitting = [n for n in range(1, len(rest) + 1) if mark + rest[:n] in vocabulary]
        if not fitting:
            rest = rest[1:]
            if not rest:
                break
            continue
        longest = max(fitting)
        pieces.append(mark + rest[:longest])
        rest = rest[longest:]
        if not rest:
            break
    return pieces


@wordpiece.misconception
def returns_no_pieces(word, vocabulary):
    """You return an empty list where no piece fits. The word becomes ["[UNK]"].

    It would vanish from the text."""
    pieces = []
    rest = word
    for _ in word:
        mark = "##" if pieces else ""
        fitting = [n for n in range(1, len(rest) + 1) if mark + rest[:n] in vocabulary]
        if not fitting:
            return []
        longest = max(fitting)
        pieces.append(mark + rest[:longest])
        rest = rest[longest:]
        if not rest:
            break
    return pieces


@wordpiece.misconception
def returns_the_word_itself(word, vocabulary):
    """You return the word itself where no piece fits. It is not in the vocabulary: it becomes ["[UNK]"]."""
    pieces = []
    rest = word
    for _ in word:
        mark = "##" if pieces else ""
        fitting = [n for n in range(1, len(rest) + 1) if mark + rest[:n] in vocabulary]
        if not fitting:
            return [word]
        longest = max(fitting)
        pieces.append(mark + rest[:longest])
        rest = rest[longest:]
        if not rest:
            break
    return pieces


@wordpiece.misconception
def returns_a_string(word, vocabulary):
    """You return the string "[UNK]". The result is always a list, here with one entry."""
    pieces = []
    rest = word
    for _ in word:
        mark = "##" if pieces else ""
        fitting = [n for n in range(1, len(rest) + 1) if mark + rest[:n] in vocabulary]
        if not fitting:
            return UNKNOWN
        longest = max(fitting)
        pieces.append(mark + rest[:longest])
        rest = rest[longest:]
        if not rest:
            break
    return pieces


@wordpiece.misconception
def calls_the_unknown_otherwise(word, vocabulary):
    """The token for an unknown word is "[UNK]" here, in capitals and square brackets."""
    pieces = []
    rest = word
    for _ in word:
        mark = "##" if pieces else ""
        fitting = [n for n in range(1, len(rest) + 1) if mark + rest[:n] in vocabulary]
        if not fitting:
            return ["<unk>"]
        longest = max(fitting)
        pieces.append(mark + rest[:longest])
        rest = rest[longest:]
        if not rest:
            break
    return pieces


@wordpiece.misconception
def never_tries_the_whole_rest(word, vocabulary):
    """You never try all that is left of the word as one piece: your search stops one letter short."""
    pieces = []
    rest = word
    for _ in word:
        mark = "##" if pieces else ""
        fitting = [n for n in range(1, len(rest)) if mark + rest[:n] in vocabulary]
        if not fitting:
            return [UNKNOWN]
        longest = max(fitting)
        pieces.append(mark + rest[:longest])
        rest = rest[longest:]
        if not rest:
            break
    return pieces


@wordpiece.misconception
def never_tries_single_letters(word, vocabulary):
    """You never try a single letter as a piece."""
    pieces = []
    rest = word
    for _ in word:
        mark = "##" if pieces else ""
        fitting = [n for n in range(2, len(rest) + 1) if mark + rest[:n] in vocabulary]
        if not fitting:
            return [UNKNOWN]
        longest = max(fitting)
        pieces.append(mark + rest[:longest])
        rest = rest[longest:]
        if not rest:
            break
    return pieces


@wordpiece.misconception
def stops_after_the_first_piece(word, vocabulary):
    """You return after the first piece. The rest of the word has to be cut as well."""
    pieces = []
    rest = word
    for _ in word:
        mark = "##" if pieces else ""
        fitting = [n for n in range(1, len(rest) + 1) if mark + rest[:n] in vocabulary]
        if not fitting:
            return [UNKNOWN]
        longest = max(fitting)
        pieces.append(mark + rest[:longest])
        return pieces
        rest = rest[longest:]
        if not rest:
            break
    return pieces


@wordpiece.misconception
def lowers_the_case(word, vocabulary):
    """You turn the word into lower case. Upper and lower case are different letters here; that step belongs
    elsewhere."""
    pieces = []
    rest = word.lower()
    for _ in word:
        mark = "##" if pieces else ""
        fitting = [n for n in range(1, len(rest) + 1) if mark + rest[:n] in vocabulary]
        if not fitting:
            return [UNKNOWN]
        longest = max(fitting)
        pieces.append(mark + rest[:longest])
        rest = rest[longest:]
        if not rest:
            break
    return pieces


@wordpiece.misconception
def joins_the_pieces(word, vocabulary):
    """You join the pieces into one string. A list of pieces is asked for."""
    pieces = []
    rest = word
    for _ in word:
        mark = "##" if pieces else ""
        fitting = [n for n in range(1, len(rest) + 1) if mark + rest[:n] in vocabulary]
        if not fitting:
            return [UNKNOWN]
        longest = max(fitting)
        pieces.append(mark + rest[:longest])
        rest = rest[longest:]
        if not rest:
            break
    return " ".join(pieces)


@wordpiece.misconception
def knows_whole_words_alone(word, vocabulary):
    """You look up only the whole word. A word that is not in the vocabulary has to be cut into pieces that are."""
    pieces = [word] if word in vocabulary else [UNKNOWN]
    return pieces


@wordpiece.misconception
def ignores_the_marks_of_the_vocabulary(word, vocabulary):
    """You take an entry for any place, with its "##" or without it. An entry with "##" fits after the first piece
    only, one without it only at the beginning."""
    pieces = []
    rest = word
    for _ in word:
        mark = "##" if pieces else ""
        fitting = [n for n in range(1, len(rest) + 1) if rest[:n] in vocabulary or "##" + rest[:n] in vocabulary]
        if not fitting:
            return [UNKNOWN]
        longest = max(fitting)
        pieces.append(mark + rest[:longest])
        rest = rest[longest:]
        if not rest:
            break
    return pieces


@wordpiece.misconception
def forgets_a_last_letter(word, vocabulary):
    """When one letter is left you stop, and the letter is lost."""
    pieces = []
    rest = word
    for _ in word:
        mark = "##" if pieces else ""
        fitting = [n for n in range(1, len(rest) + 1) if mark + rest[:n] in vocabulary]
        if not fitting:
            return [UNKNOWN]
        longest = max(fitting)
        pieces.append(mark + rest[:longest])
        rest = rest[longest:]
        if len(rest) < 2:
            break
    return pieces


@wordpiece.alternative
def with_two_loops(word, vocabulary):
    pieces, start = [], 0
    while start < len(word):
        end = len(word)
        while end > start:
            piece = word[start:end]
            if start > 0:
                piece = "##" + piece
            if piece in vocabulary:
                break
            end -= 1
        else:
            return ["[UNK]"]
        pieces.append(piece)
        start = end
    return pieces


@wordpiece.alternative
def by_recursion(word, vocabulary, mark=""):
    if not word:
        return []
    for n in range(len(word), 0, -1):
        if mark + word[:n] in vocabulary:
            rest = by_recursion(word[n:], vocabulary, "##")
            return [UNKNOWN] if rest == [UNKNOWN] else [mark + word[:n], *rest]
    return [UNKNOWN]


@wordpiece.alternative
def from_the_vocabulary(word, vocabulary):
    entries = sorted(vocabulary, key=len, reverse=True)
    left, pieces = word, ()
    while left:
        mark = "##" * bool(pieces)
        piece = next((e for e in entries if e.startswith(mark) and e != mark and (mark + left).startswith(e)), None)
        if piece is None:
            return ["[UNK]"]
        pieces += (piece,)
        left = left[len(piece) - len(mark) :]
    return pieces


@wordpiece.alternative
def with_the_mark_in_the_rest(word, vocabulary):
    pieces, rest = [], word
    while rest not in ("", "##"):
        shortest = 3 if pieces else 1
        ends = [n for n in range(shortest, len(rest) + 1) if rest[:n] in vocabulary]
        if not ends:
            return ["[UNK]"]
        pieces.append(rest[: ends[-1]])
        rest = "##" + rest[ends[-1] :]
    return pieces
