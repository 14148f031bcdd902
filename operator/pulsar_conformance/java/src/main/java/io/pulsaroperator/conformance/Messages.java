package io.pulsaroperator.conformance;

import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.MessageIdAdv;
import org.apache.pulsar.client.impl.BatchMessageIdImpl;
import org.apache.pulsar.client.impl.MessageIdImpl;

/** Received messages by number, for what is done with them later; the oldest are forgotten when there are too many. */
final class Messages {
    private static final int MOST_MESSAGES = 200_000;
    private static final long MOST_BYTES = 256L * 1024 * 1024;
    private final LinkedHashMap<Long, Message<byte[]>> received = new LinkedHashMap<>();
    private long bytes;
    private long last;

    /** A message id as text: ledger, entry, partition and place in the batch, each -1 when there is none. */
    static String text(MessageId id) {
        MessageIdAdv parts = (MessageIdAdv) id;
        return parts.getLedgerId() + ":" + parts.getEntryId() + ":" + parts.getPartitionIndex() + ":"
                + parts.getBatchIndex();
    }

    /** The id that a text stands for; it does not hold the topic. */
    static MessageId parse(String text) {
        String[] parts = text.split(":");
        try {
            long ledger = Long.parseLong(parts[0]);
            long entry = Long.parseLong(parts[1]);
            int partition = Integer.parseInt(parts[2]);
            int batch = Integer.parseInt(parts[3]);
            return batch < 0
                    ? new MessageIdImpl(ledger, entry, partition)
                    : new BatchMessageIdImpl(ledger, entry, partition, batch);
        } catch (NumberFormatException | ArrayIndexOutOfBoundsException error) {
            throw new RequestException("\"" + text + "\" is no message id: use ledger:entry:partition:batch");
        }
    }

    /** Keep a message, and tell what the other side needs to know of it. */
    Map<String, Object> keep(Message<byte[]> message) {
        long now = System.currentTimeMillis();
        MessageIdAdv id = (MessageIdAdv) message.getMessageId();
        Map<String, Object> told = new HashMap<>();
        told.put("number", number(message));
        told.put("message_id", text(id));
        told.put("data", Base64.getEncoder().encodeToString(message.getData()));
        told.put("key", message.hasKey() ? message.getKey() : null);
        told.put("ordering_key",
                message.hasOrderingKey() ? new String(message.getOrderingKey(), StandardCharsets.UTF_8) : null);
        told.put("properties", message.getProperties());
        told.put("redelivery_count", message.getRedeliveryCount());
        told.put("topic", message.getTopicName());
        told.put("publish_time_ms", message.getPublishTime());
        told.put("event_time_ms", message.getEventTime());
        told.put("sequence_id", message.getSequenceId());
        told.put("producer_name", message.getProducerName());
        told.put("batch_index", id.getBatchIndex());
        told.put("batch_size", id.getBatchSize());
        told.put("received_ms", now);
        return told;
    }

    /** A received message; RequestException when its number is unknown or forgotten. */
    synchronized Message<byte[]> get(long number) {
        Message<byte[]> message = received.get(number);
        if (message == null) {
            throw new RequestException("there is no message " + number + ", or it was forgotten after " + MOST_MESSAGES
                    + " later ones (" + MOST_BYTES + " bytes)");
        }
        return message;
    }

    private synchronized long number(Message<byte[]> message) {
        last++;
        received.put(last, message);
        bytes += message.size();
        Iterator<Message<byte[]>> oldest = received.values().iterator();
        while (received.size() > MOST_MESSAGES || (bytes > MOST_BYTES && received.size() > 1)) {
            bytes -= oldest.next().size();
            oldest.remove();
        }
        return last;
    }
}
