#!/bin/bash

set -e  # exit on errors

echo "[INFO] Waiting for Kafka Connect to become available..."
timeout 30s bash -c "
    until curl -IL --silent -u ${CONNECT_USERNAME}:${CONNECT_PASSWORD} --insecure ${CONNECT_REST_API} | grep HTTP | grep -q 200; do 
        echo \"[INFO] Waiting for Kafka Connect to become available...\" 
        sleep 2
    done
"

for connector_config_file in /opt/kafka/connector-config/*json; do

    connector_name=$(basename "$connector_config_file" | sed 's/.json//')
    echo "[INFO] Deploying connector: $connector_name"

    curl -X PUT -H "Content-Type: application/json" \
        -u ${CONNECT_USERNAME}:${CONNECT_PASSWORD} \
        -s -S -i \
        --fail-with-body --retry 3 --retry-delay 5 --retry-connrefused --connect-timeout 10 \
        --data @${connector_config_file} \
        ${CONNECT_REST_API}/connectors/${connector_name}/config || \
        (echo "[ERROR] Failed to deploy connector \'$connector_name\'"; exit 1)
done

echo "[INFO] Finished deploying the connectors"
