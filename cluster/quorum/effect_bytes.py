"""Encodes effects for clients that a leader sends to another node."""

from typing import TypeAlias

import msgspec

from leveret.cluster.quorum.machine.commands import Number
from leveret.cluster.quorum.machine.effects import (
    ActiveChanged,
    Applied,
    Deliver,
    Effect,
    Outcome,
    Result,
    SenderEnded,
    TimedOut,
    UnknownSender,
    Withheld,
)
from leveret.cluster.quorum.machine.packed_runs import PackedRunsError, pack_runs, unpack_runs


class EffectError(ValueError):
    """The bytes are not effects for a client."""


class _Told(msgspec.Struct, frozen=True, array_like=True, tag=True, gc=False):
    """The base of all effects. sender: the client's."""

    sender: Number


class _Applied(_Told, frozen=True, tag=1):
    through: Number


class _Result(_Told, frozen=True, tag=2):
    number: Number
    outcome: Outcome
    value: Number
    refused: tuple[Number, ...]


class _Deliver(_Told, frozen=True, tag=3):
    consumer: Number
    runs: bytes


class _ActiveChanged(_Told, frozen=True, tag=4):
    consumer: Number
    is_active: bool


class _TimedOut(_Told, frozen=True, tag=5):
    consumer: Number
    positions: list[Number]


class _UnknownSender(_Told, frozen=True, tag=6):
    pass


class _SenderEnded(_Told, frozen=True, tag=7):
    pass


class _Withheld(_Told, frozen=True, tag=8):
    consumer: Number
    runs: bytes


_Any: TypeAlias = (
    _Applied
    | _Result
    | _Deliver
    | _ActiveChanged
    | _TimedOut
    | _UnknownSender
    | _SenderEnded
    | _Withheld
)
_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[list[_Any]] = msgspec.msgpack.Decoder(list[_Any])


def encode_effects(effects: list[Effect]) -> bytes:
    """Encode effects for a client."""
    return _ENCODER.encode([_told(effect) for effect in effects])


def decode_effects(data: bytes) -> list[Effect]:
    """The inverse of `encode_effects`. Raises EffectError."""
    try:
        return [_effect(told) for told in _DECODER.decode(data)]
    except (msgspec.MsgspecError, UnicodeDecodeError, PackedRunsError) as error:
        raise EffectError(f"effects of a quorum queue for a client are damaged: {error}") from error


def _told(effect: Effect) -> _Any:
    if isinstance(effect, Applied):
        return _Applied(effect.sender, effect.through)
    if isinstance(effect, Deliver):
        return _Deliver(effect.sender, effect.consumer, pack_runs(effect.runs, has_times=False))
    if isinstance(effect, Result):
        return _Result(effect.sender, effect.number, effect.outcome, effect.value, effect.refused)
    if isinstance(effect, Withheld):
        return _Withheld(effect.sender, effect.consumer, pack_runs(effect.runs, has_times=False))
    if isinstance(effect, ActiveChanged):
        return _ActiveChanged(effect.sender, effect.consumer, effect.is_active)
    if isinstance(effect, TimedOut):
        return _TimedOut(effect.sender, effect.consumer, effect.positions)
    if isinstance(effect, UnknownSender):
        return _UnknownSender(effect.sender)
    assert isinstance(effect, SenderEnded), f"{effect!r} is not for a client"
    return _SenderEnded(effect.sender)


def _effect(told: _Any) -> Effect:
    match told:
        case _Applied():
            return Applied(told.sender, told.through)
        case _Deliver():
            return Deliver(told.sender, told.consumer, unpack_runs(told.runs))
        case _Withheld():
            return Withheld(told.sender, told.consumer, unpack_runs(told.runs))
        case _Result():
            return Result(told.sender, told.number, told.outcome, told.value, told.refused)
        case _ActiveChanged():
            return ActiveChanged(told.sender, told.consumer, told.is_active)
        case _TimedOut():
            return TimedOut(told.sender, told.consumer, told.positions)
        case _UnknownSender():
            return UnknownSender(told.sender)
        case _SenderEnded():
            return SenderEnded(told.sender)
