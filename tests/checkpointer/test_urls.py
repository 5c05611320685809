"""URLs of `connect`, and the errors for wrong ones."""

from __future__ import annotations

import pytest

import clew


@pytest.mark.parametrize(
    "url", ["postgresql://ann:s3cret@db/app", "redis://:s3cret@db", "postgresql://ann:s3cret@db/app?schema=x"]
)
def test_an_error_shows_no_password(url):
    with pytest.raises(clew.ConfigError, match="shema") as caught:
        clew.connect(url, shema="x")  # type: ignore[call-overload]
    assert "s3cret" not in str(caught.value)
    assert "db" in str(caught.value)


def test_a_file_with_a_hash_in_its_name_is_not_taken_for_another(tmp_path):
    with pytest.raises(clew.ConfigError, match="%23"):
        clew.connect(f"sqlite:///{tmp_path}/team#1.db")
    with clew.connect(f"sqlite:///{tmp_path}/team%231.db") as memory:
        memory.put_state("t", 1)
    assert (tmp_path / "team#1.db").exists()


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("agent.db", "for a file write sqlite:///agent.db$"),
        ("sqlite:agent.db", "for a file write sqlite:///agent.db$"),
        ("file:agent.db", "for a file write sqlite:///agent.db$"),
        ("file:agent.db?mode=ro", "for a file write sqlite:///agent.db$"),
        ("file:/data/agent.db", "for a file write sqlite:////data/agent.db$"),
        ("file:///data/agent.db", "for a file write sqlite:////data/agent.db$"),
        ("memory:", "write memory://$"),
        (":memory:", "write memory://$"),
        ("redis:/localhost", "write redis://localhost$"),
        ("redis:localhost:6379?db=1", r"write redis://localhost:6379\?db=1$"),
        ("postgresql:/ana:s3cret@db/app", "write postgresql://db/app$"),
        ("localhost:6379", "write redis://localhost:6379 or"),
        ("host=db password=s3cret", "write postgresql://"),
    ],
)
def test_a_text_that_is_no_url_gets_the_right_one(url, said):
    with pytest.raises(clew.ConfigError, match=said) as caught:
        clew.connect(url)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    ["redis://h:6379/notadb", "rediss://h/1x", "redis://u:s3cret@h/0/1", "redis+cluster://h,i/notadb", "h:6379/notadb"],
)
def test_a_database_of_redis_is_a_number(url):
    with pytest.raises(clew.ConfigError, match="the path of a Redis URL is the number of a database") as caught:
        clew.RedisCheckpointer(url)
    assert "s3cret" not in str(caught.value)
    if "://" in url:
        with pytest.raises(clew.ConfigError, match="the number of a database"):
            clew.connect("memory://", cache=url)


@pytest.mark.parametrize("url", ["redis://h", "redis://h/", "redis://h:6379/0", "redis://u:p@h/12?prefix=a/b"])
def test_usual_urls_of_redis_are_accepted(url):
    clew.connect(url).release()


def test_flags_may_be_in_the_url():
    with clew.connect("memory://?require_user=true") as memory, pytest.raises(clew.ConfigError, match="names no user"):
        memory.get_state("t")
    with clew.connect("memory://?require_user=False") as memory:
        assert memory.get_state("t") is None
    clew.connect("redis://h?lock=true").release()
    clew.connect("postgresql://h/db?enforce_user_isolation=false").release()
    for url in ("memory://?require_user=yes", "redis://h?lock=1", "memory://?telemetry=on"):
        with pytest.raises(clew.ConfigError, match="in the URL must be true or false"):
            clew.connect(url)


def test_a_directory_is_no_file(tmp_path):
    with pytest.raises(clew.ConfigError, match="is a directory: name a file in it"):
        clew.connect(f"sqlite:///{tmp_path}")


@pytest.mark.parametrize("value", ["yes", "no", 1, None])
def test_flags_are_true_or_false(value):
    for make in (
        lambda: clew.connect("memory://", require_user=value),
        lambda: clew.PgCheckpointer("postgresql://h", enforce_user_isolation=value),
        lambda: clew.PgCheckpointer("postgresql://h", release_resources=value),
        lambda: clew.RedisCheckpointer("redis://h", lock=value),
        lambda: clew.DistributedCheckpointer("memory://", "memory://", enable_replication=value),
        lambda: clew.DistributedCheckpointer("memory://", "memory://", auto_failover=value),
    ):
        with pytest.raises(clew.ConfigError, match="must be True or False"):
            make()


def test_a_clock_needs_two_methods():
    for more in ({}, {"cache": "memory://"}, {"secondary": "memory://"}):
        with pytest.raises(clew.ConfigError, match=r"clock needs the methods now\(\).* and monotonic\(\).*got 5"):
            clew.connect("memory://", clock=5, **more)  # type: ignore[call-overload]
    with pytest.raises(clew.ConfigError, match="clock needs"):
        clew.RedisCheckpointer("redis://h", lock=True, clock=5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "work",
    [
        lambda: clew.connect("memory://", secondary="redis://[x"),
        lambda: clew.connect("memory://", cache="redis://[x"),
        lambda: clew.connect("sqlite:///\ud800.db"),
        lambda: clew.SQLiteCheckpointer("a.db", synchronous=10**5000),  # type: ignore[arg-type]
        lambda: clew.PgCheckpointer("postgresql://h/d", pool_config="x"),  # type: ignore[arg-type]
    ],
)
def test_arguments_that_name_nothing_are_refused(work):
    with pytest.raises(clew.ConfigError):
        work()
