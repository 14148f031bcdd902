"""Topics: names, creation and deletion, partitions, system topics, stats, reads."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections import defaultdict

import pulsar

from pulsar_conformance.admin import AdminError
from pulsar_conformance.checks.policies import backlog
from pulsar_conformance.checks.storage import ledger_ids, subscribe, unload
from pulsar_conformance.context import Context
from pulsar_conformance.model import CheckFailed, check


def listed(ctx: Context, namespace: str, domain: str = "persistent") -> list[str]:
    """Names of the namespace's topics, partitions each on their own, without system topics."""
    return sorted(ctx.admin.get(f"{domain}/{namespace}"))


def partition(topic: str, index: int) -> str:
    """The topic that a partition is."""
    return f"{topic}-partition-{index}"


@check(
    "topic.names",
    proves="A topic's name is {persistent|non-persistent}://tenant/namespace/topic; anything else is refused",
    concepts="D.topic.name",
    seconds=1,
)
def names(ctx: Context) -> str:
    """Names of other forms; a tenant and a namespace that are not there; unusual characters, which are allowed."""
    namespace = ctx.namespace
    wrong = (
        f"kept://{namespace}/t",
        f"persistent://{namespace}",
        "persistent://alone/t",
        "a/b",
        f"persistent://{namespace}/",
    )
    for name in wrong:
        ctx.refused(pulsar.InvalidTopicName, lambda name=name: ctx.producer(name))  # type: ignore[misc]
    nowhere = (f"persistent://{ctx.instance.run}-no-tenant/n/t", f"persistent://{ctx.instance.tenant}/no-namespace/t")
    for name in nowhere:
        ctx.refused(pulsar.TopicNotFound, lambda name=name: ctx.producer(name))  # type: ignore[misc]
    ctx.refused(AdminError, lambda: ctx.topic("one-partition-1"))
    unusual = [f"persistent://{namespace}/{name}" for name in ("a b", "a:b", "a%b", "ä", "a.b_c~d=e")]
    for name in unusual:
        consumer = ctx.consumer(name)
        ctx.send(ctx.producer(name), [name])
        ctx.expect(ctx.texts(ctx.receive(consumer, 1)) == [name], f"{name} did not get its own message")
    ctx.expect(listed(ctx, namespace) == sorted(unusual), f"the namespace lists {listed(ctx, namespace)}")
    return f"{len(wrong)} names of other forms and 2 in no namespace refused; {len(unusual)} with other characters work"


@check(
    "topic.auto_creation",
    proves="The first client makes the topic; where the policy of the namespace turns this off it is refused",
    concepts="D.topic.auto",
    seconds=2,
)
def auto_creation(ctx: Context) -> str:
    """Policy on, of partitioned type, and off: what a producer and a consumer find."""
    on, parted, off = ctx.new_namespace(), ctx.new_namespace(), ctx.new_namespace()
    ctx.policy("autoTopicCreation", {"allowAutoTopicCreation": True, "topicType": "non-partitioned"}, namespace=on)
    policy = {"allowAutoTopicCreation": True, "topicType": "partitioned", "defaultNumPartitions": 3}
    ctx.policy("autoTopicCreation", policy, namespace=parted)
    ctx.policy("autoTopicCreation", {"allowAutoTopicCreation": False}, namespace=off)
    made = [ctx.topic("new", namespace=namespace, create=False) for namespace in (on, parted)]
    for topic in made:
        ctx.producer(topic)
    ctx.expect(listed(ctx, on) == [made[0]], f"on: the namespace lists {listed(ctx, on)}")
    expected = [partition(made[1], i) for i in range(3)]
    ctx.expect(listed(ctx, parted) == expected, f"partitioned with 3: the namespace lists {listed(ctx, parted)}")
    topic = ctx.topic("new", namespace=off, create=False)
    refusal = ctx.refused(pulsar.TopicNotFound, lambda: ctx.producer(topic))
    ctx.refused(pulsar.TopicNotFound, lambda: ctx.consumer(topic))
    ctx.expect(not listed(ctx, off), f"off: the namespace lists {listed(ctx, off)}")
    ctx.producer(ctx.topic("made", namespace=off))
    return f"made on first use, with 3 partitions where the policy says so; off: {refusal}, made by admin REST it works"


@check(
    "topic.default",
    proves="A short name means persistent://public/default/",
    concepts="D.topic.default",
    seconds=2,
)
def default_namespace(ctx: Context) -> str:
    """Produced to by the short name, consumed by the full one."""
    short = ctx.namespace.replace("/", "-")
    full = f"persistent://public/default/{short}"
    ctx.admin.put(ctx.path(full))

    def remove() -> None:
        for name in listed(ctx, "public/default"):
            if name.startswith(full):
                ctx.admin.delete(ctx.path(name), force=True)

    ctx.defer(remove)
    producer, consumer = ctx.producer(short), ctx.consumer(full)
    # Before the topic is removed, for else they make it again.
    ctx.defer(producer.close)
    ctx.defer(consumer.close)
    ctx.send(producer, ["m"])
    ctx.receive(consumer, 1)
    ctx.expect(producer.topic() in (full, short), f"the producer's topic is {producer.topic()}")
    ctx.expect(ctx.stats(full)["msgInCounter"] == 1, "the full name's topic did not count the message")
    return f"sent to {short}, received from {full}"


@check(
    "topic.partitioned",
    proves="A partitioned topic is as many topics; a producer's messages go to all, a consumer gets those of all",
    concepts="D.topic.partitioned",
    seconds=3,
)
def partitioned(ctx: Context) -> str:
    """40 messages over 4 partitions; order within each."""
    topic = ctx.topic(partitions=4)
    consumer = ctx.consumer(topic)
    producer = ctx.producer(topic, message_routing_mode=pulsar.PartitionsRoutingMode.RoundRobinDistribution)
    ctx.send(producer, [str(i) for i in range(40)])
    got: dict[str, list[int]] = defaultdict(list)
    for message in ctx.receive(consumer, 40):
        got[message.topic_name()].append(int(message.data()))
    expected = [partition(topic, i) for i in range(4)]
    ctx.expect(listed(ctx, ctx.namespace) == expected, f"the namespace lists {listed(ctx, ctx.namespace)}")
    ctx.expect(sorted(got) == expected, f"messages came from {sorted(got)}")
    ctx.expect(all(numbers == sorted(numbers) for numbers in got.values()), f"out of order in a partition: {dict(got)}")
    stored = [ctx.stats(name)["msgInCounter"] for name in expected]
    ctx.expect(sum(stored) == 40, f"the partitions stored {stored}")
    ctx.expect(
        sorted(itertools.chain(*got.values())) == list(range(40)),
        f"{sum(map(len, got.values()))} came, not each of 40 once",
    )
    return f"4 partitions stored {stored} of 40 messages; one consumer got all, in order within each partition"


@check(
    "topic.grow",
    proves="Partitions can be added under load: running clients take them up, nothing is lost, nothing is moved",
    concepts="D.topic.grow",
    seconds=70,
)
def grow(ctx: Context) -> str:
    """From 2 to 4 while a producer sends; the client looks for new partitions once a minute."""
    topic = ctx.topic(partitions=2)
    consumer = ctx.consumer(topic)
    producer = ctx.producer(topic, message_routing_mode=pulsar.PartitionsRoutingMode.RoundRobinDistribution)
    sent, broken, stop = itertools.count(), list[pulsar.PulsarException](), threading.Event()

    def produce() -> None:
        try:
            while not stop.wait(0.02):
                producer.send(str(next(sent)).encode())
        except pulsar.PulsarException as error:
            broken.append(error)

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        old = [partition(topic, i) for i in range(2)]
        ctx.eventually(lambda: all(ctx.stats(name)["msgInCounter"] > 10 for name in old), "messages in both partitions")
        before = [ledger_ids(ctx, name) for name in old]
        ctx.admin.post(f"{ctx.path(topic)}/partitions", 4)
        new = [partition(topic, i) for i in (2, 3)]
        ctx.eventually(
            lambda: all(ctx.stats(name)["msgInCounter"] > 10 for name in new),
            "the running producer sends to the new partitions",
            within=110,
            every=1,
        )
    finally:
        stop.set()
        thread.join()
    ctx.expect(not broken, f"the producer failed: {broken}")
    total = next(sent)
    messages = ctx.receive(consumer, total, within=90)
    by_partition: dict[str, list[int]] = defaultdict(list)
    for message in messages:
        by_partition[message.topic_name()].append(int(message.data()))
    ctx.expect(
        sorted(itertools.chain(*by_partition.values())) == list(range(total)), f"not each of {total} messages came once"
    )
    ctx.expect(len(by_partition) == 4, f"messages came from {sorted(by_partition)}")
    ctx.expect(all(numbers == sorted(numbers) for numbers in by_partition.values()), "out of order within a partition")
    after = [ledger_ids(ctx, name)[: len(ids)] for name, ids in zip(old, before, strict=True)]
    ctx.expect(after == before, f"the old partitions' ledgers were {before} and are {after}")
    counts = [len(by_partition[partition(topic, i)]) for i in range(4)]
    return (
        f"2 to 4 partitions: {total} messages sent during the change all came, {counts} a partition; old ledgers stayed"
    )


@check(
    "topic.shrink",
    proves="Partitions cannot be taken away",
    concepts="D.topic.grow",
    seconds=1,
)
def shrink(ctx: Context) -> str:
    """From 3 to 2 is refused and changes nothing."""
    topic = ctx.topic(partitions=3)
    refusal = ctx.refused(AdminError, lambda: ctx.admin.post(f"{ctx.path(topic)}/partitions", 2))
    found = ctx.admin.get(f"{ctx.path(topic)}/partitions")["partitions"]
    ctx.expect(found == 3, f"the topic has {found} partitions now")
    return f"3 to 2: {refusal.split(': ', 1)[1]}"


@check(
    "topic.nonpersistent",
    proves="A non-persistent topic delivers to who is connected, keeps nothing for who is not, and has no ledger",
    concepts="E.nonpersistent",
    seconds=4,
)
def nonpersistent(ctx: Context) -> str:
    """Ten messages with a consumer, five without, one with a consumer again."""
    topic = ctx.topic(persistent=False, create=False)
    consumer = ctx.consumer(topic)
    producer = ctx.producer(topic)
    ctx.send(producer, [f"m{i}" for i in range(10)])
    got = ctx.texts(ctx.receive(consumer, 10))
    ctx.expect(got == [f"m{i}" for i in range(10)], f"the connected consumer got {got}")
    consumer.close()
    # Pulsar 4.0.8 removes the subscription a moment later, also from under a consumer that has just come back, which
    # then gets nothing any more (compare apache/pulsar issue 23993). Where it stays, this waits in vain.
    with contextlib.suppress(CheckFailed):
        ctx.eventually(lambda: not ctx.stats(topic)["subscriptions"], "the subscription goes", within=3)
    ctx.send(producer, [f"lost{i}" for i in range(5)])
    again = ctx.consumer(topic)
    ctx.nothing(again, 1.5, "messages sent while no consumer was connected are lost")
    ctx.send(producer, ["after"])
    ctx.expect(ctx.texts(ctx.receive(again, 1)) == ["after"], "the consumer that came back got another message")
    stored = ctx.internal_stats(topic).get("ledgers", [])
    ctx.expect(not stored, f"it has ledgers: {stored}")
    ctx.expect(not listed(ctx, ctx.namespace), f"persistent topics: {listed(ctx, ctx.namespace)}")
    return "10 of 10 delivered while connected, 5 of 5 lost while not, the next one delivered; no ledgers"


@check(
    "topic.nonpersistent_partitioned",
    proves="Non-persistent topics can be partitioned",
    concepts="D.topic.nonpersistent.partitioned",
    seconds=3,
)
def nonpersistent_partitioned(ctx: Context) -> str:
    """30 messages over 3 partitions to a connected consumer; none kept."""
    topic = ctx.topic(partitions=3, persistent=False)
    consumer = ctx.consumer(topic)
    producer = ctx.producer(topic, message_routing_mode=pulsar.PartitionsRoutingMode.RoundRobinDistribution)
    ctx.send(producer, [str(i) for i in range(30)])
    messages = ctx.receive(consumer, 30)
    ctx.expect(sorted(int(message.data()) for message in messages) == list(range(30)), "not each of 30 came once")
    used = sorted({message.topic_name() for message in messages})
    ctx.expect(used == [partition(topic, i) for i in range(3)], f"messages came from {used}")
    consumer.close()
    ctx.send(producer, ["lost"] * 3)
    ctx.nothing(ctx.consumer(topic), 1.5, "a non-persistent topic keeps nothing for a consumer that is not there")
    return "30 messages over 3 non-persistent partitions delivered; 3 sent while no consumer was there are lost"


@check(
    "topic.system",
    proves="Pulsar keeps the policies of topics in a system topic of the namespace, which lists do not show by default",
    concepts="D.topic.system",
    seconds=2,
)
def system(ctx: Context) -> str:
    """A topic policy makes __change_events; it is in the list only when it is asked for."""
    ctx.require(ctx.setting("systemTopicEnabled") == "true", "systemTopicEnabled is false")
    ctx.require(ctx.setting("topicLevelPoliciesEnabled") == "true", "topicLevelPoliciesEnabled is false")
    topic = ctx.topic()
    events = f"persistent://{ctx.namespace}/__change_events"
    ctx.admin.post(f"{ctx.path(topic)}/maxConsumers", 7)
    ctx.eventually(lambda: ctx.admin.get(f"{ctx.path(topic)}/maxConsumers") == 7, "the policy of the topic is there")
    plain, full = listed(ctx, ctx.namespace), ctx.admin.get(f"persistent/{ctx.namespace}", includeSystemTopic=True)
    ctx.expect(plain == [topic], f"the default list is {plain}")
    ctx.expect(events in full, f"the list with system topics is {full}")
    count = ctx.internal_stats(events)["numberOfEntries"]
    ctx.expect(count > 0, f"{events} has no entry")
    return f"a topic policy is {count} entry in __change_events, listed with includeSystemTopic only"


@check(
    "topic.stats",
    proves="Topic stats over admin REST count what was published, delivered and not acknowledged, and by whom",
    concepts="A.stats",
    seconds=2,
)
def stats(ctx: Context) -> str:
    """Ten messages, seven acknowledged."""
    topic = ctx.topic()
    consumer, producer = ctx.consumer(topic), ctx.producer(topic, producer_name="stats-producer")
    ctx.send(producer, [f"m{i}" for i in range(10)])
    for message in ctx.receive(consumer, 10, ack=False)[:7]:
        consumer.acknowledge(message)
    ctx.eventually(lambda: backlog(ctx, topic) == 3, "3 of 10 messages in the backlog")
    found = ctx.stats(topic)
    subscription = found["subscriptions"]["sub"]
    reported = {
        "in": found["msgInCounter"],
        "out": found["msgOutCounter"],
        "producers": [one["producerName"] for one in found["publishers"]],
        "consumers": len(subscription["consumers"]),
        "type": subscription["type"],
    }
    expected = {
        "in": 10,
        "out": 10,
        "producers": ["stats-producer"],
        "consumers": 1,
        "type": "Exclusive",
    }
    ctx.expect(reported == expected, f"{reported}, expected {expected}")
    ctx.expect(found["bytesInCounter"] > 0 and found["storageSize"] > 0, f"no bytes: {found['bytesInCounter']}")
    producer.close()
    consumer.close()
    gone = ctx.stats(topic)
    ctx.expect(
        not gone["publishers"] and not gone["subscriptions"]["sub"]["consumers"], "closed clients are still there"
    )
    return f"in 10, out 10, backlog 3, 1 producer by name, 1 consumer, {found['storageSize']} B stored"


@check(
    "topic.reads",
    proves="Readers that catch up from storage and readers at the tail work side by side, also right after a change of "
    "owner",
    concepts="A.broker.reads",
    seconds=5,
)
def reads(ctx: Context) -> str:
    """200 messages, unload, so that no broker has them cached; a reader from the start, a consumer at the tail."""
    topic = ctx.topic()
    subscribe(ctx, topic, "kept")
    tail = ctx.consumer(topic, "tail")
    producer = ctx.producer(topic)
    texts = [f"m{i}" for i in range(300)]
    ctx.send(producer, texts[:200])
    ctx.receive(tail, 200)
    before = ledger_ids(ctx, topic)
    unload(ctx, topic)
    behind = ctx.reader(topic)
    got_tail: list[str] = []
    got_behind: list[str] = []
    for text in texts[200:]:
        ctx.send(producer, [text])
        while text not in got_tail[-1:]:
            # Some of the old ones may come again: acknowledgements are not confirmed.
            got_tail += ctx.texts(ctx.receive(tail, 1))
        got_behind += ctx.texts(ctx.receive(behind, 1))
    got_behind += ctx.texts(ctx.receive(behind, 200))
    ctx.expect(ledger_ids(ctx, topic) != before, "the topic was not unloaded")
    fresh = list(dict.fromkeys(text for text in got_tail if text in texts[200:]))
    ctx.expect(fresh == texts[200:], f"the tail got {len(fresh)} of 100 new messages: {fresh[:5]} ...")
    ctx.expect(got_behind == texts, f"the reader from the start got {len(got_behind)}: {got_behind[:5]} ...")
    return "after an unload a reader caught up through 300 messages in order while a consumer got each of 100 new ones"


@check(
    "topic.delete",
    proves="A topic in use is not deleted unless by force; then its clients are cut off and its data is gone",
    concepts="D.topic.name",
    seconds=2,
)
def delete(ctx: Context) -> str:
    """Refused with a producer, refused with a consumer, deleted without, deleted by force with both."""
    ctx.policy("autoTopicCreation", {"allowAutoTopicCreation": False})
    topic, forced = ctx.topic("plain"), ctx.topic("forced")
    producer = ctx.producer(topic)
    with_producer = ctx.refused(AdminError, lambda: ctx.admin.delete(ctx.path(topic)))
    producer.close()
    consumer = ctx.consumer(topic)
    ctx.refused(AdminError, lambda: ctx.admin.delete(ctx.path(topic)))
    consumer.close()
    ctx.admin.delete(ctx.path(topic))
    consumer, producer = ctx.consumer(forced), ctx.producer(forced)
    ctx.send(producer, ["m"])
    ctx.admin.delete(ctx.path(forced), force=True)
    ctx.expect(not listed(ctx, ctx.namespace), f"still listed: {listed(ctx, ctx.namespace)}")
    ctx.refused(AdminError, lambda: ctx.stats(forced))
    again = ctx.consumer(ctx.topic("forced"), "other")
    ctx.nothing(again, 1, "a topic made again under the name of a deleted one is empty")
    return f"in use: {with_producer.split(': ', 1)[1]}; by force both clients cut off and the messages gone"
