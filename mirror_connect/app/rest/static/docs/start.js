// Without a validator's address Swagger UI would ask one on the internet about the contract.
window.SwaggerUIBundle({ url: "openapi.json", dom_id: "#swagger-ui", deepLinking: true, validatorUrl: null });
