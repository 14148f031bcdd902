package io.pulsaroperator.conformance;

import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.BatcherBuilder;
import org.apache.pulsar.client.api.MessageRouter;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.ProducerBuilder;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.TypedMessageBuilder;
import org.apache.pulsar.client.api.transaction.Transaction;
import org.apache.pulsar.client.impl.conf.ProducerConfigurationData;

/** The producer.* operations. */
final class ProducerOperations implements Operations {
    private static final int SEND_TIMEOUT_MS = 20_000;
    private final Handles handles;

    ProducerOperations(Handles handles) {
        this.handles = handles;
    }

    @Override
    public Map<String, Operation> byName() {
        return Map.of(
                "producer.create", this::create,
                "producer.send", this::send,
                "producer.flush", request -> producer(request).flushAsync(),
                "producer.last_sequence_id",
                Operation.now(request -> Map.of("sequence_id", producer(request).getLastSequenceId())),
                "producer.connected", Operation.now(request -> Map.of("connected", producer(request).isConnected())),
                "producer.close", this::close);
    }

    private CompletableFuture<?> create(Request request) throws Exception {
        Session session = handles.get(request.text("client"), Session.class);
        if (!request.flag("own_client")) {
            return made(builder(session.client(), request).createAsync(), session, null);
        }
        // A producer that waits for its turn can only be given up by closing its client, so it has one of its own.
        PulsarClient own = session.twin();
        CompletableFuture<?> result;
        try {
            result = made(builder(own, request).createAsync(), session, own);
        } catch (RuntimeException error) {
            handles.inBackground(session.drop(own));
            throw error;
        }
        result.whenComplete((handle, error) -> {
            if (error != null) {
                handles.inBackground(session.drop(own));
            }
        });
        return result;
    }

    private CompletableFuture<?> made(CompletableFuture<Producer<byte[]>> making, Session session, PulsarClient own) {
        return handles.whenMade(
                making,
                producer -> new ProducerEntry(producer, new Lane(), session, own),
                "producer",
                Producer::closeAsync);
    }

    private static ProducerBuilder<byte[]> builder(PulsarClient client, Request request) {
        Map<String, Object> defaults = Map.of("sendTimeoutMs", SEND_TIMEOUT_MS);
        ProducerBuilder<byte[]> builder = client.newProducer()
                .loadConf(Conf.checked(request.map("conf"), defaults, ProducerConfigurationData.class))
                .topic(request.text("topic"));
        if (request.flag("key_based_batching")) {
            builder.batcherBuilder(BatcherBuilder.KEY_BASED);
        }
        request.optionalText("router").ifPresent(name -> builder.messageRouter(router(name)));
        return builder;
    }

    private static MessageRouter router(String name) {
        return switch (name) {
            case "first" -> Routers.first();
            case "last" -> Routers.last();
            default -> throw new RequestException("there is no router \"" + name + "\": use \"first\" or \"last\"");
        };
    }

    private CompletableFuture<?> send(Request request) {
        Producer<byte[]> producer = producer(request);
        TypedMessageBuilder<byte[]> message = request.has("transaction")
                ? producer.newMessage(handles.get(request.text("transaction"), Transaction.class))
                : producer.newMessage();
        message.value(request.bytes("data")).properties(request.textMap("properties"));
        request.optionalText("key").ifPresent(message::key);
        request.optionalText("ordering_key")
                .ifPresent(key -> message.orderingKey(key.getBytes(StandardCharsets.UTF_8)));
        if (request.has("event_time")) {
            message.eventTime(request.number("event_time"));
        }
        if (request.has("sequence_id")) {
            message.sequenceId(request.number("sequence_id"));
        }
        if (request.has("deliver_after_ms")) {
            message.deliverAfter(request.number("deliver_after_ms"), TimeUnit.MILLISECONDS);
        }
        return message.sendAsync().thenApply(id -> Map.of("message_id", Messages.text(id)));
    }

    private CompletableFuture<?> close(Request request) {
        ProducerEntry entry = handles.remove(request.text("handle"), ProducerEntry.class);
        CompletableFuture<Void> closing = entry.close();
        if (entry.ownClient() != null) {
            closing.whenComplete((done, error) -> handles.inBackground(entry.session().drop(entry.ownClient())));
        }
        return closing;
    }

    private Producer<byte[]> producer(Request request) {
        return handles.get(request.text("handle"), ProducerEntry.class).producer();
    }
}
