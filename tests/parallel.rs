//! The paper's section 3: worked numbers, operators, layers and loss.

mod cross_entropy;
mod layers;
mod messages;
mod paper;
mod random;
