package io.pulsaroperator.conformance;

import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageRouter;
import org.apache.pulsar.client.api.TopicMetadata;

/** Message routers that do what no built-in routing mode does, so that a test sees that they were asked. */
final class Routers {
    private Routers() {}

    /** Always partition 0. */
    static MessageRouter first() {
        return new MessageRouter() {
            private static final long serialVersionUID = 1L;

            @Override
            public int choosePartition(Message<?> message, TopicMetadata metadata) {
                return 0;
            }
        };
    }

    /** Always the highest partition. */
    static MessageRouter last() {
        return new MessageRouter() {
            private static final long serialVersionUID = 1L;

            @Override
            public int choosePartition(Message<?> message, TopicMetadata metadata) {
                return metadata.numPartitions() - 1;
            }
        };
    }
}
