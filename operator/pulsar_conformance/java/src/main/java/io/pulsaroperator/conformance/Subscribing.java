package io.pulsaroperator.conformance;

import java.util.List;
import java.util.Map;
import org.apache.pulsar.client.api.ConsumerBuilder;
import org.apache.pulsar.client.api.DeadLetterPolicy;
import org.apache.pulsar.client.api.KeySharedPolicy;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.Range;
import org.apache.pulsar.client.api.RedeliveryBackoff;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.SubscriptionMode;
import org.apache.pulsar.client.api.SubscriptionType;
import org.apache.pulsar.client.impl.MultiplierRedeliveryBackoff;
import org.apache.pulsar.client.impl.conf.ConsumerConfigurationData;

/** The arguments of consumer.create as a builder of the client. */
final class Subscribing {
    private Subscribing() {}

    static ConsumerBuilder<byte[]> builder(PulsarClient client, Request request) {
        // loadConf comes first: it would undo what the builder's own methods have set.
        ConsumerBuilder<byte[]> builder = client.newConsumer()
                .loadConf(Conf.checked(request.map("conf"), Map.of(), ConsumerConfigurationData.class))
                .subscriptionName(request.text("subscription"))
                .subscriptionType(SubscriptionType.valueOf(request.text("type")))
                .subscriptionMode(SubscriptionMode.valueOf(request.text("mode")))
                .subscriptionInitialPosition(SubscriptionInitialPosition.valueOf(request.text("initial_position")));
        List<String> topics = request.texts("topics");
        if (!topics.isEmpty()) {
            builder.topics(topics);
        }
        request.optionalText("pattern").ifPresent(builder::topicsPattern);
        if (request.has("dead_letter")) {
            builder.deadLetterPolicy(deadLetter(request.map("dead_letter")));
        }
        if (request.has("nack_backoff")) {
            builder.negativeAckRedeliveryBackoff(backoff(request.map("nack_backoff")));
        }
        if (request.has("ack_timeout_backoff")) {
            builder.ackTimeoutRedeliveryBackoff(backoff(request.map("ack_timeout_backoff")));
        }
        if (request.has("sticky_ranges")) {
            Range[] ranges = request.pairs("sticky_ranges").stream()
                    .map(pair -> Range.of(pair[0], pair[1]))
                    .toArray(Range[]::new);
            KeySharedPolicy policy = KeySharedPolicy.stickyHashRange().ranges(ranges);
            builder.keySharedPolicy(policy.setAllowOutOfOrderDelivery(request.flag("allow_out_of_order")));
        } else if (request.flag("allow_out_of_order")) {
            builder.keySharedPolicy(KeySharedPolicy.autoSplitHashRange().setAllowOutOfOrderDelivery(true));
        }
        return builder;
    }

    private static DeadLetterPolicy deadLetter(Map<String, Object> settings) {
        DeadLetterPolicy policy = DeadLetterPolicy.builder().maxRedeliverCount(1).build();
        settings.forEach((name, value) -> {
            switch (name) {
                case "max_redeliver_count" -> policy.setMaxRedeliverCount(((Number) value).intValue());
                case "dead_letter_topic" -> policy.setDeadLetterTopic((String) value);
                case "retry_letter_topic" -> policy.setRetryLetterTopic((String) value);
                case "initial_subscription_name" -> policy.setInitialSubscriptionName((String) value);
                default -> throw unknown("dead_letter", name);
            }
        });
        return policy;
    }

    private static RedeliveryBackoff backoff(Map<String, Object> settings) {
        MultiplierRedeliveryBackoff.MultiplierRedeliveryBackoffBuilder builder = MultiplierRedeliveryBackoff.builder();
        settings.forEach((name, value) -> {
            Number number = (Number) value;
            switch (name) {
                case "min_delay_ms" -> builder.minDelayMs(number.longValue());
                case "max_delay_ms" -> builder.maxDelayMs(number.longValue());
                case "multiplier" -> builder.multiplier(number.doubleValue());
                default -> throw unknown("a back-off", name);
            }
        });
        return builder.build();
    }

    private static RequestException unknown(String what, String name) {
        return new RequestException(what + " has no setting \"" + name + "\"");
    }
}
