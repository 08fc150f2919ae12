"""Make course_lib/data/voices.npz and person.npz: `python -m benchmarks.make_voices`.

It needs three packages of Debian (here those of Debian 12):

    apt-get install espeak-ng flite asterisk-core-sounds-en-wav

espeak-ng computes speech from formants; a voice is an accent, a variant (the timbre), a speed and a pitch. flite puts
pieces of recorded people together. The person is Allison Smith, who recorded the announcements of the telephone system
Asterisk. Every digit is taken down to 8,000 samples per second, freed of silence at both ends, made equally loud and
stored in eight bits per sample.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import torch
from torch import Tensor

from course_lib.voices import PERSON, RATE, VOICES, WORDS, Voice, loudest_one, read_wav, trimmed, write_voices

ACCENTS = ("en-us", "en-gb", "en-gb-scotland", "en-us-nyc", "en-gb-x-rp", "en-029", "en-gb-x-gbclan", "en-gb-x-gbcwmd")
TRAIN = (
    *("Alex", "Alicia", "Andrea", "Andy", "Annie", "Denis", "Gene", "Henrique", "Hugo", "Jacky", "Lee", "Marco"),
    *("Michael", "Mike", "adam", "anika", "aunty", "belinda", "benjamin", "caleb", "david", "f1", "f2", "f3", "f4"),
    *("grandma", "klatt2", "linda", "m1", "m3", "m5", "m7", "pablo", "steph", "travis", "victor"),
)
UNSEEN = ("Diogo", "Mario", "ed", "f5", "iven", "john", "klatt4", "m2", "m8", "michel", "shelby", "zac")
FLITE = ("awb", "kal16", "rms", "slt")
ASTERISK = Path("/usr/share/asterisk/sounds/en_US_f_Allison/digits")


def recorded(command: list[str], path: Path) -> Tensor:
    """The samples in the WAV file that a program writes."""
    subprocess.run(command, check=True, capture_output=True)
    return loudest_one(trimmed(read_wav(path))) * 0.9


def espeak_voice(variant: str, number: int, scratch: Path) -> Voice:
    """Accent, speed and pitch go round by the number, each at its own pace."""
    accent, speed, pitch = ACCENTS[number % len(ACCENTS)], 190 + 10 * (number % 5), 30 + 10 * (number % 6)
    path = scratch / "digit.wav"
    options = ["-v", f"{accent}+{variant}", "-s", str(speed), "-p", str(pitch), "-w", str(path)]
    digits = tuple(recorded(["espeak-ng", *options, word], path) for word in WORDS)
    return Voice(f"{variant} ({accent})", digits)


def flite_voice(name: str, scratch: Path) -> Voice:
    path = scratch / "digit.wav"
    digits = tuple(recorded(["flite", "-voice", name, "-t", word, "-o", str(path)], path) for word in WORDS)
    return Voice(name, digits)


def person() -> Voice:
    digits = tuple(loudest_one(trimmed(read_wav(ASTERISK / f"{digit}.wav"))) * 0.9 for digit in range(10))
    return Voice("Allison Smith", digits)


def main() -> None:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        groups = [("train", variant) for variant in TRAIN] + [("unseen", variant) for variant in UNSEEN]
        voices = [(group, espeak_voice(variant, i, scratch)) for i, (group, variant) in enumerate(groups)]
        voices += [("other_machine", flite_voice(name, scratch)) for name in FLITE]
    write_voices(VOICES, voices)
    write_voices(PERSON, [("person", person())])
    for path in (VOICES, PERSON):
        print(f"{path.name}: {path.stat().st_size / 1e6:.2f} MB")
    seconds = sum(len(wave) for _, voice in voices for wave in voice.digits) / RATE
    print(f"{len(voices)} voices, {seconds:.0f} seconds")


if __name__ == "__main__":
    main()
