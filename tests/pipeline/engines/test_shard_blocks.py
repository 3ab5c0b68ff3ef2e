"""Workers run blocks of shards, and help each other in the end."""

from __future__ import annotations

from pasta.pipeline.engines.shard_blocks import ShardBlocks


def test_a_worker_stays_with_its_block_until_it_is_done():
    blocks = ShardBlocks(20)
    assert [blocks.take(worker) for worker in "aabab"] == [0, 1, 8, 2, 9]
    assert [blocks.take("a") for _ in range(6)] == [3, 4, 5, 6, 7, 16]


def test_without_blocks_that_have_not_begun_the_one_with_most_left_is_helped():
    blocks = ShardBlocks(12)
    assert [blocks.take(worker) for worker in "abc"] == [0, 8, 1]
    taken = [blocks.take("b") for _ in range(9)]
    assert sorted(taken) == [2, 3, 4, 5, 6, 7, 9, 10, 11]
    assert taken[:3] == [9, 10, 11]
    assert not blocks


def test_no_shards_and_a_worker_that_nobody_knows():
    assert not ShardBlocks(0)
    blocks = ShardBlocks(2)
    assert [blocks.take(None), blocks.take("a")] == [0, 1]
    assert not blocks
