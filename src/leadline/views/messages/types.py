"""The shapes of what the API says of messages: documentation for OpenAPI, of which the page's types are made."""

from __future__ import annotations

from pydantic import BaseModel, Field


class ChannelShape(BaseModel):
    """A channel. `order`: ranks as they send to each other, in a ring or chain; empty in any other shape.

    `around_ns`: the sum of delays once around a ring, in which errors of clocks cancel; null where one is not known.
    """

    channel: int
    shape: str
    order: list[int]
    edges: int
    around_ns: int | None


class FlowCollision(BaseModel):
    """Where a flow of an edge stands in the way of others: these are `flows`; `jobs` are whose all of them are."""

    flow: str
    link: str
    flows: list[str]
    jobs: list[str]


class MessageEdge(BaseModel):
    """Messages from one rank to another. `share`: of the time in collectives, what was held by them.

    Delays are one-way, right to within `bound_ns`; null where the clocks do not allow them. `transfer_*`: from both
    ends posted to received. `backwards`: messages of which the clocks contradict each other. `flow`: where it is one.
    `collision`: with whom a flow of it fills the busiest of several equal-cost links; null: with nobody that is known.
    """

    src_rank: int
    dst_rank: int
    channels: list[int]
    messages: int
    unpaired: int
    conflicting: int
    bytes: float
    held_s: float
    share: float | None
    transfer_p50_ns: int | None
    transfer_p99_ns: int | None
    delay_p50_ns: int | None
    delay_p99_ns: int | None
    bound_ns: int | None
    backwards: int
    flow: str | None
    flows: int
    collision: FlowCollision | None


class MessageCommunicator(BaseModel):
    """A communicator: edges as its rings run; `edges_total` and `channels_total` count all."""

    comm: str
    ranks: int
    collectives_s: float
    held_s: float
    messages: int
    unpaired: int
    conflicting: int
    bytes: float
    channels: list[ChannelShape]
    channels_total: int
    edges: list[MessageEdge]
    edges_total: int


class MessagesAnswer(BaseModel):
    """`GET /api/v1/messages`: that with most time in collectives first."""

    schema_version: int = Field(alias="schema")
    job: str
    end_ns: int | None
    window_ns: int | None
    communicators: list[MessageCommunicator]
    communicators_total: int
    why: str
    note: str
