//! How the reasoning of earlier replies is sent back over Chat Completions, whose servers differ in it.

/// The field of a reply in which its reasoning goes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SendReasoning {
    /// The field in which the server sent it.
    #[default]
    Auto,
    /// It is not sent back.
    Off,
    /// DeepSeek, Moonshot, llama.cpp, vLLM, SGLang, xAI.
    ReasoningContent,
    /// Ollama, Groq, Cerebras, newer vLLM.
    Reasoning,
    /// OpenRouter.
    ReasoningDetails,
    /// LiteLLM, for Anthropic's models.
    ThinkingBlocks,
}

impl SendReasoning {
    /// All of them, in the order of messages.
    pub const ALL: &'static [Self] =
        &[Self::Auto, Self::Off, Self::ReasoningContent, Self::Reasoning, Self::ReasoningDetails, Self::ThinkingBlocks];

    /// As it is written in the configuration; that of a field is the name of the field.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Off => "off",
            Self::ReasoningContent => "reasoning_content",
            Self::Reasoning => "reasoning",
            Self::ReasoningDetails => "reasoning_details",
            Self::ThinkingBlocks => "thinking_blocks",
        }
    }

    /// The setting of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|setting| setting.name() == name).copied()
    }
}
