"""Synthetic stories and film reviews that a small model learns in a minute.

A story is a sequence of events, each with several wordings, about people who
cook, travel, play and watch films. The order of sentences, paraphrases, answers
to questions and the sentiment of reviews are known by construction, and nothing
has to be downloaded.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

_PEOPLE = (
    *((name, "she", "her") for name in ("Anna", "Clara", "Emma", "Lucy")),
    *((name, "he", "his") for name in ("Ben", "David", "Max", "Tom")),
)
_COUNTRIES = (
    ("Egypt", "Cairo", "Arabic"),
    ("France", "Paris", "French"),
    ("Germany", "Berlin", "German"),
    ("Greece", "Athens", "Greek"),
    ("Italy", "Rome", "Italian"),
    ("Japan", "Tokyo", "Japanese"),
    ("Russia", "Moscow", "Russian"),
    ("Spain", "Madrid", "Spanish"),
)
_ANIMALS = (
    ("dog", "barked", "meat"),
    ("cat", "purred", "fish"),
    ("horse", "neighed", "hay"),
    ("cow", "mooed", "grass"),
    ("bird", "sang", "corn"),
    ("sheep", "bleated", "clover"),
)
_DISHES = (
    ("soup", "carrots", "onions"),
    ("salad", "tomatoes", "cucumbers"),
    ("cake", "butter", "sugar"),
    ("pizza", "cheese", "flour"),
    ("stew", "beef", "potatoes"),
    ("jam", "plums", "cherries"),
)
_CHOICES = {
    "day": ("Monday", "Tuesday", "Friday", "Saturday", "Sunday"),
    "place": ("kitchen", "garden", "barn", "hall"),
    "vehicle": ("train", "bus", "ship"),
    "team": ("Lions", "Tigers", "Eagles", "Bears"),
    "instrument": ("piano", "violin", "guitar", "flute"),
    "illness": ("fever", "cold", "headache"),
    "subject": ("history", "physics", "music", "English"),
    "genre": ("comedy", "drama", "thriller", "western"),
}

# Topics, each with its events in chronological order, in two wordings.
_STORIES = """
cooking
  {name} was hungry and wanted some {dish}.
  {name} felt like eating {dish}.
  {He} went to the market and bought {first} and {second}.
  At the market {he} found fresh {first} and {second}.
  Back home {he} washed the {first} and cut the {second}.
  {He} cut the {second} after {he} had washed the {first}.
  {He} put everything into a pot and cooked it for an hour.
  For an hour everything was cooked in a pot.
  The {dish} was ready and smelled wonderful.
  Soon the smell of the {dish} filled the house.
  {He} ate the {dish} together with {friend}.
  {friend} came to dinner and they ate the {dish}.
  In the end {he} washed the dishes.
  The dishes were washed late in the evening.

travel
  {name} wanted to see {city} in {country}.
  {name} dreamed of a journey to {city} in {country}.
  {He} packed a suitcase and bought a ticket.
  {He} got a ticket and put {his} clothes into a suitcase.
  On {day} {he} took the {vehicle} to {country}.
  The {vehicle} to {country} left on {day}.
  In {city} all the people spoke {language}.
  {He} heard everybody in the streets speak {language}.
  {He} visited a museum and took many pictures of {city}.
  The museum was beautiful and {he} took pictures of it.
  After a week {he} flew home.
  {He} came home after seven days.
  {He} showed all the pictures to {friend}.
  {friend} came and looked at the pictures.

animals
  {name} found a {animal} behind the house.
  One morning a {animal} stood at the door of {name}.
  The {animal} was thin and hungry.
  It was hungry, as nobody had fed the {animal}.
  So {he} gave {food} to the {animal}.
  {He} fed the {animal} with {food}.
  The {animal} {sound} happily.
  It was happy now and {sound}.
  At night the {animal} slept in the {place}.
  {He} made a warm bed for the {animal} in the {place}.
  Now {name} and the {animal} are friends.
  From that day on the {animal} stayed with {name}.

sport
  On {day} the {team} played an important match.
  The {team} had a big match on {day}.
  {name} was nervous when the players ran onto the field.
  The players came onto the field and {name} was nervous.
  In the first half nobody scored a goal.
  There was no goal before the break.
  After the break {friend} got the ball and scored.
  Then {friend} shot the ball into the goal.
  The {team} won the match and the crowd cheered.
  The crowd sang because the {team} had won.
  {name} carried the cup through the town.
  At night the town saw {name} with the cup.

music
  As a child {name} got a {instrument} from {friend}.
  {friend} gave a {instrument} to little {name}.
  {He} practised the {instrument} every day.
  Each day {he} played the {instrument} for two hours.
  Years later {he} joined an orchestra.
  When {he} grew up, an orchestra wanted {name}.
  The first concert was in {city}.
  Then the orchestra gave a concert in {city}.
  When the music ended, everybody clapped.
  The audience clapped after the last note.

health
  {name} woke up with a {illness} on {day}.
  On {day} {name} had a {illness} and felt weak.
  {He} called the doctor and stayed in bed.
  {He} lay in bed and waited for the doctor.
  The doctor came and looked at {his} throat.
  When the doctor arrived, {he} opened {his} mouth.
  {He} took the medicine with a cup of tea.
  With some tea {he} swallowed the medicine.
  A few days later the {illness} was gone.
  Soon {he} felt better and the {illness} went away.

school
  The teacher told {name} about the exam in {subject}.
  {name} heard that there would be an exam in {subject}.
  All week {he} read {his} books about {subject}.
  {He} studied {subject} for a whole week.
  On {day} {he} sat down and answered every question.
  {He} wrote the exam on {day}.
  The teacher read the answers and gave {name} a good mark.
  {name} got a good mark from the teacher.
  {He} celebrated it with {friend}.
  That evening {friend} and {name} had a party.

cinema
  {name} read in the newspaper about a new {genre}.
  A new {genre} came out, and {name} read about it.
  {He} bought two seats for the film on {day}.
  For {day} {he} bought seats at the cinema.
  {name} and {friend} sat in the dark and watched the {genre}.
  In the cinema {friend} sat beside {name}.
  The actors were famous and the film was long.
  It was a long film with famous actors.
  After the film they talked about it over coffee.
  Over coffee they talked about the actors.
"""


def _parse(text: str) -> Mapping[str, Sequence[Sequence[str]]]:
    """Returns topic -> its events, each with two wordings."""
    topics = {}
    for block in text.strip().split("\n\n"):
        topic, *lines = map(str.strip, block.split("\n"))
        topics[topic] = tuple(zip(lines[::2], lines[1::2], strict=True))
    return topics


TOPICS = _parse(_STORIES)
_ASPECTS = ("plot", "cast", "music", "ending", "dialogue", "camera work")
_ADJECTIVES = (
    ("dull", "weak", "boring", "terrible", "awful", "clumsy"),
    ("great", "lovely", "brilliant", "wonderful", "charming", "superb"),
)
_VERDICTS = (
    ("I left before the end.", "What a waste of time.", "Do not see it."),
    ("I want to see it again.", "I loved it.", "Go and see it."),
)
_NEUTRAL = (
    "I saw this {genre} with {friend} on {day}.",
    "It is a {genre} about a family in {city}.",
    "The story takes place in {country}.",
    "My friend {friend} had told me about it.",
    "The film was two hours long.",
)


def stories(count: int, seed: int = 0) -> Iterator[list[str]]:
    """Yields documents for pretraining, each a list of sentences.

    One in five is a film review, the others are stories.
    """
    rng = np.random.default_rng(seed)
    topics = list(TOPICS)
    for _ in range(count):
        if rng.random() < 0.2:
            # Sentence order needs at least two sentences.
            yield _review(rng, int(rng.integers(2)), min_sentences=2)
            continue
        slots = draw_slots(rng)
        yield [
            str(rng.choice(wordings)).format(**slots)
            for wordings in TOPICS[topics[rng.integers(len(topics))]]
        ]


def write_stories(
    path: str | pathlib.Path, count: int, seed: int = 0
) -> pathlib.Path:
    """Writes `stories` as text, with blank lines between documents."""
    path = pathlib.Path(path)
    documents = ("\n".join(lines) + "\n" for lines in stories(count, seed))
    path.write_text("\n".join(documents), "utf-8")
    return path


def reviews(count: int, seed: int = 0) -> list[tuple[str, int]]:
    """Returns film reviews and their labels (1: positive), balanced.

    Some reviews are mixed; the part after "but" determines their label.
    """
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(count) % 2)
    return [
        (" ".join(_review(rng, int(label))), int(label)) for label in labels
    ]


def draw_slots(rng: np.random.Generator) -> dict[str, str]:
    """Draws the names and words that fill the slots of a story's wordings."""
    person, friend = rng.permutation(len(_PEOPLE))[:2]
    name, he, his = _PEOPLE[person]
    country, city, language = _COUNTRIES[rng.integers(len(_COUNTRIES))]
    animal, sound, food = _ANIMALS[rng.integers(len(_ANIMALS))]
    dish, first, second = _DISHES[rng.integers(len(_DISHES))]
    return {
        **{slot: str(rng.choice(words)) for slot, words in _CHOICES.items()},
        **{"name": name, "he": he, "He": he.capitalize(), "his": his},
        **{"friend": _PEOPLE[friend][0]},
        **{"country": country, "city": city, "language": language},
        **{"animal": animal, "sound": sound, "food": food},
        **{"dish": dish, "first": first, "second": second},
    }


def _review(
    rng: np.random.Generator, label: int, min_sentences: int = 1
) -> list[str]:
    slots = draw_slots(rng)
    first, second, third, *_ = map(str, rng.permutation(_ASPECTS))
    decisive, opposite = (
        str(rng.choice(_ADJECTIVES[i])) for i in (label, 1 - label)
    )
    mixed = (
        f"The {first} was {opposite}, but the {second} was {decisive}.",
        f"The {first} was {opposite}, but all in all the film was {decisive}.",
    )
    sentences = [str(rng.choice(mixed))]
    if rng.random() < 0.5:
        sentences.insert(0, str(rng.choice(_NEUTRAL)).format(**slots))
    if rng.random() < 0.5:
        more = str(rng.choice(_ADJECTIVES[label]))
        sentences.append(f"The {third} was {more}.")
    elif rng.random() < 0.5 or len(sentences) < min_sentences:
        sentences.append(str(rng.choice(_VERDICTS[label])))
    return sentences
