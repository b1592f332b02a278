"""What the tests hold instead of the solution's functions, classes and objects.

A call crosses the pipe and gives data back. Data is compared here, by Python's own types: the solution has to say
what its answer is before it is compared. An object of the solution is never equal to plain data, unless it
holds some (a subclass of int, of list): then that is asked for, and compared here. Only two objects of a class that
the tests made themselves are compared by the class's own methods: those are what is tested then.
"""

from __future__ import annotations

import builtins
import os
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

from rubrank.verifiers.agentic.apart.wire import PLAIN, Peer, decode, encode, is_own

TESTS = "__tests__"
"""The name of the module that the tests' source becomes."""
_FLOW = ("StopIteration", "StopAsyncIteration", "GeneratorExit")
"""Exceptions that end a loop without a word: from a call they would cut `map` and `all` short."""
_MOST_ITEMS = 1_000_000
_SINGLE = (type(None), bool, int, float, complex, str, bytes)


class ProxyClient:
    """The tests' end of the pipe: keeps one proxy for each object of the solution, and the tests' own by number."""

    def __init__(self, incoming: int, outgoing: int) -> None:
        self.peer = Peer(incoming, outgoing, self.answer)
        self.proxies: dict[int, Any] = {}
        self.classes: dict[int, Any] = {}
        self.ours: dict[int, Any] = {}
        self.numbers: dict[int, int] = {}
        self.module: Callable[[str], Any] = _no_module

    def ask(self, do: str, **values: Any) -> Any:
        """The answer's value; the solution's exceptions are raised here."""
        return self.decode(self.told(do, **values).get("ok"))

    def told(self, do: str, **values: Any) -> dict[str, Any]:
        """The whole answer; what the solution printed is printed."""
        said = self.peer.ask(do=do, **values)
        if isinstance(said.get("out"), str):
            sys.stdout.write(said["out"])
        if "error" in said:
            raise self._error(do == "op" and values["op"] in ("next", "getitem"), *said["error"])
        return said

    def call(self, at: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function of the solution; what it did to its arguments in place is done here, too."""
        said = self.told("call", at=at, args=self.encode(list(args)), kwargs=self.encode(kwargs))
        if "args" in said:
            new_args, new_kwargs = self.decode(said["args"])
            for old, new in zip(args, new_args, strict=True):
                _restore(old, new)
            for name, old in kwargs.items():
                _restore(old, new_kwargs.get(name, old))
        return self.decode(said.get("ok"))

    def encode(self, value: Any) -> Any:
        """As it crosses the pipe."""
        return encode(value, self._refer)

    def decode(self, data: Any) -> Any:
        """As it came over the pipe."""
        return decode(data, self._resolve)

    def _refer(self, value: Any) -> Any:
        at = _at(value)
        if at is not None:
            return ["m", at]
        if isinstance(value, type) and is_own(value):
            return ["y", value.__name__]
        if isinstance(value, PLAIN) and not callable(value):
            return self.encode(_as_plain(value))
        if not (callable(value) or _of_tests(value)):
            raise TypeError(f"{type(value).__name__} cannot be handed to the solution: plain data and functions can")
        number = self.numbers.setdefault(id(value), len(self.numbers))
        self.ours[number] = value
        return ["h", number]

    def _resolve(self, data: list[Any]) -> Any:
        tag, number = data[0], data[1]
        if tag == "m":
            return self.ours[number]
        if tag == "M":
            return self.module(str(number))
        if tag == "y":
            return _own_type(str(number))
        if tag == "k":
            return self.classes[number] if number in self.classes else self._class(*data[1:5])
        if number not in self.proxies:
            self.proxies[number] = self._proxy(number, str(data[2]), str(data[3]), data[4])
        return self.proxies[number]

    def _proxy(self, number: int, kind: str, name: str, of: Any) -> Any:
        if kind == "coroutine":
            return self._awaited(number)
        if kind == "function":
            return Function(self, number, name)
        return _make(self._resolve(of), self, number)

    async def _awaited(self, number: int) -> Any:
        return self.ask("await", at=number)

    def _class(self, number: int, name: str, bases: list[Any], error: str) -> Any:
        above = tuple(dict.fromkeys(self._resolve(base) for base in bases))
        if error:
            kind: Any = type(str(name), above or (_built_in(error),), {})
        else:
            above = tuple(base for base in above if isinstance(base, Class)) or (Object,)
            kind = Class(str(name), above, {})
            type.__setattr__(kind, "_client", self)
        type.__setattr__(kind, "_number", number)
        self.classes[number] = kind
        return kind

    def _error(self, in_loop: bool, kind: Any, built_in: str, args: list[Any], words: str) -> BaseException:
        if built_in in _FLOW and not in_loop:
            return RuntimeError(f"the solution raised {built_in}: {words}")
        try:
            made = _built_in(built_in) if kind is None else self._resolve(kind)
            return made(*(self.decode(arg) for arg in args))
        except Exception:
            return RuntimeError(f"{built_in}: {words}")

    # --- what the solution asks of us while we wait

    def answer(self, message: dict[str, Any]) -> dict[str, Any]:
        """A function of the tests is called, or a field of one of their objects read or set."""
        try:
            value = self.ours[message["at"]]
            if message["do"] == "call":
                return {"ok": self.encode(value(*self.decode(message["args"]), **self.decode(message["kwargs"])))}
            name = str(message["name"])
            if name.startswith("_") or not _of_tests(value):
                raise AttributeError(f"{name} cannot be reached from the solution")
            if message["do"] == "set":
                if hasattr(type(value), name) and not hasattr(type(value), "__slots__"):
                    raise AttributeError(f"{name} cannot be changed by the solution")
                setattr(value, name, self.decode(message["value"]))
                return {"ok": None}
            return {"ok": self.encode(getattr(value, name))}
        except Exception as error:
            return {"error": [None, type(error).__name__, [], str(error)[:1000]]}


def _no_module(name: str) -> Any:
    raise ImportError(name)


def _built_in(name: str) -> Any:
    found = getattr(builtins, name, None)
    return found if isinstance(found, type) and issubclass(found, BaseException) else RuntimeError


def _own_type(name: str) -> Any:
    found = getattr(builtins, name, None)
    if not isinstance(found, type):
        raise TypeError(f"{name} is not a type")
    return found


def _of_tests(value: Any) -> bool:
    """An instance of a class that the tests, or files of theirs, define?"""
    module = sys.modules.get(type(value).__module__)
    file = getattr(module, "__file__", None) or ""
    return type(value).__module__ == TESTS or file.startswith(os.getcwd() + "/")


def _as_plain(value: Any) -> Any:
    return next(base(value) for base in PLAIN if isinstance(value, base))


def _restore(old: Any, new: Any) -> Any:
    """Make `old` hold what `new` holds, in place as far as it goes."""
    if type(old) is not type(new) or isinstance(old, _SINGLE):
        return new
    if isinstance(old, list):
        old[:] = [_restore(a, b) for a, b in zip(old, new, strict=False)] + new[len(old) :]
    elif isinstance(old, dict):
        items = {key: _restore(old[key], item) if key in old else item for key, item in new.items()}
        old.clear()
        old.update(items)
    elif isinstance(old, tuple):
        return tuple(_restore(a, b) for a, b in zip(old, new, strict=False))
    elif hasattr(old, "clear"):
        old.clear()
        (old.extend if hasattr(old, "extend") else old.update)(new)
    elif type(old).__name__ == "ndarray" and old.shape == new.shape:
        old[...] = new
    return old


# --- proxies ------------------------------------------------------------------------------------------------------


def _at(value: Any) -> int | None:
    """The number of the solution's object behind a proxy."""
    if isinstance(value, Class):
        return type.__getattribute__(value, "_number")
    if isinstance(value, type) and issubclass(value, BaseException):
        return getattr(value, "_number", None)
    return object.__getattribute__(value, "_number") if isinstance(value, (Function, Object, Module)) else None


class Function:
    """A function, or a method, of the solution."""

    def __init__(self, client: ProxyClient, number: int, name: str) -> None:
        self._client, self._number, self.__name__ = client, number, name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Over there."""
        return self._client.call(self._number, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        return self._client.ask("get", at=self._number, name=name)

    def __repr__(self) -> str:
        return f"<function {self.__name__} of the solution>"


class Class(type):
    """A class of the solution: calling it makes an object there, and says that the class itself is tested."""

    _client: ProxyClient
    _number: int
    _tested = False

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        """Over there."""
        type.__setattr__(cls, "_tested", True)
        return cls._client.call(cls._number, args, kwargs)

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return cls._client.ask("get", at=cls._number, name=name)

    def __setattr__(cls, name: str, value: Any) -> None:
        cls._client.ask("set", at=cls._number, name=name, value=cls._client.encode(value))

    def __getitem__(cls, key: Any) -> Any:
        return cls._client.ask("op", op="getitem", at=cls._number, args=cls._client.encode([key]))

    def __iter__(cls) -> Any:
        return _items(cls._client, cls._client.ask("op", op="iter", at=cls._number, args=["l", []]))

    def __bool__(cls) -> bool:
        return True

    def __len__(cls) -> int:
        return _exact(cls._client.ask("op", op="len", at=cls._number, args=["l", []]), int)


def _items(client: ProxyClient, iterator: Any) -> Iterator[Any]:
    return iter(iterator) if not isinstance(iterator, Object) else iterator


def _exact(value: Any, kind: type) -> Any:
    """The value, which must be of this very type; the solution decides what it is, not how it behaves."""
    if type(value) is not kind:
        raise TypeError(f"the solution gave {type(value).__name__} where Python wants {kind.__name__}")
    return value


def _make(kind: Any, client: ProxyClient, number: int) -> Any:
    made = object.__new__(kind)
    object.__setattr__(made, "_client", client)
    object.__setattr__(made, "_number", number)
    return made


class Object(metaclass=Class):
    """An object of the solution."""

    _client: ProxyClient
    _number: int

    def _op(self, op: str, *args: Any) -> Any:
        client = object.__getattribute__(self, "_client")
        number = object.__getattribute__(self, "_number")
        return client.ask("op", op=op, at=number, args=client.encode(list(args)))

    def _compared(self, op: str, other: Any) -> Any:
        """By the class's own methods for two objects of a class that is tested; else by the plain value held."""
        if isinstance(other, Object):
            if object.__getattribute__(self, "_number") == object.__getattribute__(other, "_number") and op in _SAME:
                return _SAME[op]
            if type.__getattribute__(type(self), "_tested") and type.__getattribute__(type(other), "_tested"):
                return _exact(self._op(op, other), bool)
            return NotImplemented
        client = object.__getattribute__(self, "_client")
        try:
            held = client.ask("plain", at=object.__getattribute__(self, "_number"))
        except TypeError:
            return NotImplemented
        return getattr(held, f"__{op}__")(other)

    def __getattr__(self, name: str) -> Any:
        if name in ("_client", "_number"):
            raise AttributeError(name)
        return self._client.ask("get", at=self._number, name=name)

    def __setattr__(self, name: str, value: Any) -> None:
        self._client.ask("set", at=self._number, name=name, value=self._client.encode(value))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Over there."""
        return self._client.call(self._number, args, kwargs)

    def __hash__(self) -> int:
        return _exact(self._op("hash"), int)

    def __bool__(self) -> bool:
        return _exact(self._op("bool"), bool)

    def __len__(self) -> int:
        return _exact(self._op("len"), int)

    def __str__(self) -> str:
        return _exact(self._op("str"), str)

    def __repr__(self) -> str:
        return _exact(self._op("repr"), str)

    def __format__(self, spec: str) -> str:
        return _exact(self._op("format", spec), str)

    def __iter__(self) -> Any:
        return _items(self._client, self._op("iter"))

    def __next__(self) -> Any:
        return self._op("next")

    def __contains__(self, item: Any) -> bool:
        """By its own method if the class is tested; else its items are looked at here."""
        if type.__getattribute__(type(self), "_tested"):
            return _exact(self._op("contains", item), bool)
        return any(item is other or item == other for other, _ in zip(self, range(_MOST_ITEMS), strict=False))

    def __enter__(self) -> Any:
        return self._op("enter")

    def __exit__(self, kind: Any, error: Any, trace: Any) -> Any:
        return bool(self._op("exit", None, None, None)) if kind is None else None


_SAME = {"eq": True, "ne": False, "le": True, "ge": True, "lt": False, "gt": False}


def _comparing(op: str) -> Callable[[Any, Any], Any]:
    return lambda self, other: self._compared(op, other)


def _operating(op: str) -> Callable[..., Any]:
    return lambda self, *args: self._op(op, *args)


_BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul")
_UNARY = ("abs", "neg", "pos", "invert", "round", "reversed")
_ITEMS = ("getitem", "setitem", "delitem")
_IN_PLACE = ("iadd", "isub", "imul", "ior", "iand", "ixor")

for _name in _SAME:
    type.__setattr__(Object, f"__{_name}__", _comparing(_name))
for _name in (*_BINARY, *(f"r{name}" for name in _BINARY), *_UNARY, *_ITEMS, *_IN_PLACE, "lshift", "rshift"):
    type.__setattr__(Object, f"__{_name}__", _operating(_name))
for _name in ("and", "or", "xor", "rand", "ror", "rxor"):
    type.__setattr__(Object, f"__{_name}__", _operating(f"{_name.removesuffix('_')}_"))
for _name, _kind in (("int", int), ("float", float), ("index", int)):
    type.__setattr__(Object, f"__{_name}__", lambda self, _n=_name, _k=_kind: _exact(self._op(_n), _k))


class Module(types.ModuleType):
    """A module of the solution: its names are looked up there, each time."""

    def __init__(self, name: str, client: ProxyClient, number: int, names: list[Any]) -> None:
        super().__init__(name)
        own = {"_client": client, "_number": number}
        own["__all__"] = [n for n in names if isinstance(n, str) and n[:1] != "_" and not hasattr(builtins, n)]
        self.__dict__.update(own)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__") and name != "__version__":
            raise AttributeError(name)
        return self.__dict__["_client"].ask("get", at=self.__dict__["_number"], name=name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("__") or isinstance(value, types.ModuleType):
            super().__setattr__(name, value)
        else:
            client = self.__dict__["_client"]
            client.ask("set", at=self.__dict__["_number"], name=name, value=client.encode(value))
