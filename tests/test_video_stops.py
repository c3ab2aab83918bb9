"""What came and stands still is told from what moves."""

import numpy as np
from made.street import street

from lrmc.apps import video
from lrmc.apps.video.events import STOPPED
from lrmc.apps.video.stops import MINUTES, SECONDS, Stops

WALL = np.full((24, 32), 90, np.uint8)
THING = np.zeros((24, 32), bool)
THING[8:20, 10:24] = True


def shown(frame=WALL, thing=THING, value=200):
    return np.where(thing, np.uint8(value), frame)


def test_a_thing_that_stands_has_stopped_after_a_while():
    stops = Stops(5.0, 20.0)
    wait = round(5 * SECONDS)
    for k in range(wait + 3):
        front, stopped = stops.add(shown(), WALL, THING)
        assert np.array_equal(front, THING)
        assert stopped.any() == (k >= wait - 1)
    assert stopped[9:19, 11:23].all()
    assert not stopped[~THING].any()
    # it leaves
    front, stopped = stops.add(WALL, WALL, np.zeros_like(THING))
    assert not front.any()
    assert not stopped.any()


def test_what_a_background_took_in_is_remembered_for_minutes():
    stops = Stops(1.0, 20.0)
    for _ in range(5):
        stops.add(shown(), WALL, THING)
    none = np.zeros_like(THING)
    lasted = 0
    for _ in range(round(60 * MINUTES) + 20):
        front, _ = stops.add(shown(), shown(), none)  # now it is the background
        lasted += bool(front[12, 15])
    assert abs(lasted - (60 * MINUTES - 5)) <= 1
    # and what it was is known while it stands
    assert not stops.add(WALL, shown(), none)[0].any()


def test_what_changes_all_the_time_has_not_stopped():
    stops = Stops(2.0, 20.0)
    for k in range(40):
        _, stopped = stops.add(shown(value=120 + 60 * (k % 3)), WALL, THING)
    assert not stopped.any()


def test_a_walker_who_stops():
    made = street("stops", n=90, seed=1)
    found = video.separate(made.frames).stopped(rate=5.0)
    moving = made.truth & ~made.still
    # two seconds go by before it is told
    late = made.still.any(axis=(1, 2)).argmax() + 12
    assert found[late:][made.still[late:]].mean() > 0.65  # others pass before him
    assert found[moving].mean() < 0.1


def test_events_tell_what_stands(tmp_path):
    from made.film import write_pictures

    made = street("stops", n=90, height=72, width=96, seed=1)
    made = np.repeat(made.frames, 3, axis=0)  # 25 frames a second are meant
    done = video.process(write_pictures(tmp_path / "in", made), tmp_path / "out")
    states = {event.state for event in done.events}
    assert states == {"moving", STOPPED}
    lines = (tmp_path / "out" / "events.csv").read_text().splitlines()
    assert lines[0].endswith("area,state")
    assert any(line.endswith(",stopped") for line in lines)
