package io.pulsaroperator.entryfilter;

import org.apache.bookkeeper.mledger.Entry;
import org.apache.pulsar.broker.service.plugin.EntryFilter;
import org.apache.pulsar.broker.service.plugin.FilterContext;
import org.apache.pulsar.common.api.proto.KeyValue;

/** Rejects entries with property skip=yes. Those of a batch have no properties of their own, so they all pass. */
public class SkipFilter implements EntryFilter {
    @Override
    public FilterResult filterEntry(Entry entry, FilterContext context) {
        for (KeyValue property : context.getMsgMetadata().getPropertiesList()) {
            if (property.getKey().equals("skip") && property.getValue().equals("yes")) {
                return FilterResult.REJECT;
            }
        }
        return FilterResult.ACCEPT;
    }

    @Override
    public void close() {
        // Nothing is held.
    }
}
