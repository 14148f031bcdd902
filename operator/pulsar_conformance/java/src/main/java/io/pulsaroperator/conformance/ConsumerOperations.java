package io.pulsaroperator.conformance;

import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.transaction.Transaction;

/** The consumer.* operations but for the making of one, see {@link Subscribing}. */
final class ConsumerOperations implements Operations {
    private final Handles handles;
    private final Messages messages;

    ConsumerOperations(Handles handles, Messages messages) {
        this.handles = handles;
        this.messages = messages;
    }

    @Override
    public Map<String, Operation> byName() {
        Map<String, Operation> operations = new HashMap<>();
        operations.put("consumer.create", this::create);
        operations.put("consumer.receive", Operation.now(this::receive));
        operations.put("consumer.ack", this::ack);
        operations.put(
                "consumer.ack_cumulative", request -> consumer(request).acknowledgeCumulativeAsync(message(request)));
        operations.put("consumer.nack", Operation.now(request -> {
            consumer(request).negativeAcknowledge(message(request));
            return null;
        }));
        operations.put("consumer.reconsume_later", this::reconsumeLater);
        operations.put("consumer.redeliver_unacknowledged", Operation.now(request -> {
            consumer(request).redeliverUnacknowledgedMessages();
            return null;
        }));
        operations.put("consumer.seek", this::seek);
        operations.put("consumer.pause", Operation.now(request -> {
            consumer(request).pause();
            return null;
        }));
        operations.put("consumer.resume", Operation.now(request -> {
            consumer(request).resume();
            return null;
        }));
        operations.put("consumer.connected",
                Operation.now(request -> Map.of("connected", consumer(request).isConnected())));
        operations.put("consumer.unsubscribe", this::unsubscribe);
        operations.put("consumer.close", request ->
                handles.remove(request.text("handle"), ConsumerEntry.class).close());
        return operations;
    }

    private CompletableFuture<?> create(Request request) {
        Session session = handles.get(request.text("client"), Session.class);
        return handles.whenMade(
                Subscribing.builder(session.client(), request).subscribeAsync(),
                consumer -> new ConsumerEntry(consumer, session),
                "consumer",
                Consumer::closeAsync);
    }

    private Object receive(Request request) throws Exception {
        int timeout = Math.toIntExact(request.number("timeout_ms"));
        Message<byte[]> message = consumer(request).receive(timeout, TimeUnit.MILLISECONDS);
        return message == null ? Map.of() : Map.of("message", messages.keep(message));
    }

    private CompletableFuture<?> ack(Request request) {
        Message<byte[]> message = message(request);
        if (!request.has("transaction")) {
            return consumer(request).acknowledgeAsync(message);
        }
        Transaction transaction = handles.get(request.text("transaction"), Transaction.class);
        return consumer(request).acknowledgeAsync(message.getMessageId(), transaction);
    }

    private CompletableFuture<?> reconsumeLater(Request request) {
        long delay = request.number("delay_ms");
        Consumer<byte[]> consumer = consumer(request);
        Message<byte[]> message = message(request);
        return request.has("properties")
                ? consumer.reconsumeLaterAsync(message, request.textMap("properties"), delay, TimeUnit.MILLISECONDS)
                : consumer.reconsumeLaterAsync(message, delay, TimeUnit.MILLISECONDS);
    }

    private CompletableFuture<?> seek(Request request) {
        if (request.has("timestamp_ms")) {
            return consumer(request).seekAsync(request.number("timestamp_ms"));
        }
        MessageId place = request.has("message") ? message(request).getMessageId() : place(request.text("position"));
        return consumer(request).seekAsync(place);
    }

    private static MessageId place(String position) {
        return switch (position) {
            case "earliest" -> MessageId.earliest;
            case "latest" -> MessageId.latest;
            default -> Messages.parse(position);
        };
    }

    private CompletableFuture<?> unsubscribe(Request request) {
        // A consumer whose unsubscribe was refused lives on; one that is gone is closed by the client itself.
        return consumer(request).unsubscribeAsync();
    }

    private Message<byte[]> message(Request request) {
        return messages.get(request.number("message"));
    }

    private Consumer<byte[]> consumer(Request request) {
        return handles.get(request.text("handle"), ConsumerEntry.class).consumer();
    }
}
